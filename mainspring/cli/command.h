// Command and Flags: how a verb of the program declares itself, without a word of the parser behind
// it.
//
// The one idea: every command file has `void add_<verb>(CommandRegistry&)`, which names the verb,
// binds its flags to plain variables and gives the function to run; one adapter file knows the
// command-line library.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace mainspring::cli {

/// The flags of one command. Variables outlive parsing; their values before it are the defaults
/// that
/// --help shows. Names are without dashes ("max-batch"); `help` is one sentence without a full
/// stop.
class Flags {
 public:
  virtual ~Flags() = default;

  /// --name TEXT.
  virtual void text(const std::string& name, std::string* value, const std::string& help) = 0;
  /// --name TEXT, must be given.
  virtual void required_text(const std::string& name, std::string* value,
                             const std::string& help) = 0;
  /// --name TEXT, any number of times.
  virtual void texts(const std::string& name, std::vector<std::string>* values,
                     const std::string& help) = 0;
  /// --name TEXT, one of `choices`.
  virtual void choice(const std::string& name, std::string* value,
                      const std::vector<std::string>& choices, const std::string& help) = 0;
  /// --name INT, from `lowest` to `highest`.
  virtual void integer(const std::string& name, int64_t* value, int64_t lowest,
                       const std::string& help, int64_t highest) = 0;
  void integer(const std::string& name, int64_t* value, int64_t lowest, const std::string& help) {
    integer(name, value, lowest, help, std::numeric_limits<int32_t>::max());
  }
  /// --name NUMBER.
  virtual void number(const std::string& name, double* value, const std::string& help) = 0;
  /// --name, sets true.
  virtual void toggle(const std::string& name, bool* value, const std::string& help) = 0;
  /// An argument without a name, in the order declared.
  virtual void positional(const std::string& name, std::string* value, bool required,
                          const std::string& help) = 0;
};

class CommandRegistry {
 public:
  virtual ~CommandRegistry() = default;

  /// Adds `mainspring <path>`; a path of two words ("inspect data") is a command below a command.
  /// `run` gives the exit code: 0 done, 1 the world or the input refused (a message was printed), 2
  /// wrong usage.
  virtual Flags& add(const std::string& path, const std::string& summary,
                     std::function<int()> run) = 0;
};

}  // namespace mainspring::cli
