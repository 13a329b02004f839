#include "mainspring/env/python_program.h"

#include "mainspring/env/child_process.h"

namespace mainspring {

Result<std::string> find_python(const std::string& name) {
  ChildOptions options;
  options.command = {name, "-c", "import sys; print(sys.executable)"};
  auto child = ChildProcess::start(options);
  if (!child.ok()) return child.status();
  (*child)->send_end();
  std::string path;
  const ChildProcess::Read read = (*child)->read_line(path, deadline_in(30));
  if (read == ChildProcess::Read::kLine && path.starts_with('/')) return path;
  (*child)->wait(deadline_in(1));
  const std::string how = (*child)->stop().to_string();
  return failed_precondition("\"" + name + "\" is no Python that runs: " + how + ": " +
                             (*child)->error_tail());
}

}  // namespace mainspring
