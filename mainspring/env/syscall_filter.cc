#include "mainspring/env/syscall_filter.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace mainspring {

#if defined(__x86_64__)
namespace {

constexpr uint32_t kFirstX32Call = 0x40000000;

// Filters are programs for a small machine: load a word of the call's description, compare, return.
constexpr uint32_t kNumber = offsetof(seccomp_data, nr);
constexpr uint32_t kArchitecture = offsetof(seccomp_data, arch);
constexpr uint32_t low_word(int argument) {
  return static_cast<uint32_t>(offsetof(seccomp_data, args)) + 8u * static_cast<uint32_t>(argument);
}

class FilterWriter {
 public:
  FilterWriter() {
    load(kArchitecture);
    add(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    add(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
    load(kNumber);
    add(BPF_JMP | BPF_JGE | BPF_K, kFirstX32Call, 0, 1);
    refuse(EPERM);
  }

  void refuse_call(long number, int error = EPERM) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1);
    refuse(error);
  }
  /// Where one of `bits` is set in the argument's low word.
  void refuse_call_with(long number, int argument, uint32_t bits) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 4);
    load(low_word(argument));
    add(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
    refuse(EPERM);
    load(kNumber);
  }
  /// Where none of `bits` is set.
  void refuse_call_without(long number, int argument, uint32_t bits) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 4);
    load(low_word(argument));
    add(BPF_JMP | BPF_JSET | BPF_K, bits, 1, 0);
    refuse(EPERM);
    load(kNumber);
  }
  /// Where the argument, a pointer, is not null.
  void refuse_call_with_pointer(long number, int argument) {
    refuse_call_with(number, argument, 0xFFFFFFFFu);
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 4);
    load(low_word(argument) + 4);
    add(BPF_JMP | BPF_JSET | BPF_K, 0xFFFFFFFFu, 0, 1);
    refuse(EPERM);
    load(kNumber);
  }

  std::vector<sock_filter> finish() {
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    return std::move(program_);
  }

 private:
  void add(int code, uint32_t k, uint8_t if_true, uint8_t if_false) {
    program_.push_back({static_cast<uint16_t>(code), if_true, if_false, k});
  }
  void load(uint32_t offset) { add(BPF_LD | BPF_W | BPF_ABS, offset, 0, 0); }
  void refuse(int error) {
    add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error), 0, 0);
  }

  std::vector<sock_filter> program_;
};

/// Ways out of the child's own memory, files and sockets apart.
constexpr long kAlwaysRefused[] = {SYS_kill,
                                   SYS_tkill,
                                   SYS_tgkill,
                                   SYS_rt_sigqueueinfo,
                                   SYS_rt_tgsigqueueinfo,
                                   SYS_pidfd_send_signal,
                                   SYS_pidfd_getfd,
                                   SYS_ptrace,
                                   SYS_process_vm_readv,
                                   SYS_process_vm_writev,
                                   SYS_kcmp,
                                   SYS_setrlimit,
                                   SYS_mount,
                                   SYS_umount2,
                                   SYS_pivot_root,
                                   SYS_chroot,
                                   SYS_setns,
                                   SYS_unshare,
                                   SYS_io_uring_setup,
                                   SYS_bpf,
                                   SYS_perf_event_open,
                                   SYS_userfaultfd,
                                   SYS_add_key,
                                   SYS_request_key,
                                   SYS_keyctl,
                                   SYS_init_module,
                                   SYS_finit_module,
                                   SYS_delete_module,
                                   SYS_kexec_load,
                                   SYS_kexec_file_load,
                                   SYS_reboot,
                                   SYS_swapon,
                                   SYS_swapoff,
                                   SYS_settimeofday,
                                   SYS_clock_settime,
                                   SYS_adjtimex,
                                   SYS_sethostname,
                                   SYS_setdomainname,
                                   SYS_open_by_handle_at,
                                   SYS_shmget,
                                   SYS_msgget,
                                   SYS_semget,
                                   SYS_mq_open,
                                   SYS_memfd_create,
                                   SYS_fsopen,
                                   SYS_fsmount,
                                   SYS_move_mount,
                                   SYS_open_tree,
                                   SYS_quotactl,
                                   SYS_acct,
                                   SYS_iopl,
                                   SYS_ioperm};

constexpr long kChangesFiles[] = {
    SYS_creat,     SYS_truncate,    SYS_ftruncate,    SYS_rename,       SYS_renameat, SYS_renameat2,
    SYS_mkdir,     SYS_mkdirat,     SYS_rmdir,        SYS_link,         SYS_linkat,   SYS_symlink,
    SYS_symlinkat, SYS_unlink,      SYS_unlinkat,     SYS_chmod,        SYS_fchmod,   SYS_fchmodat,
    SYS_chown,     SYS_fchown,      SYS_lchown,       SYS_fchownat,     SYS_mknod,    SYS_mknodat,
    SYS_utime,     SYS_utimes,      SYS_utimensat,    SYS_futimesat,    SYS_setxattr, SYS_lsetxattr,
    SYS_fsetxattr, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, SYS_fallocate};

}  // namespace

Result<std::vector<sock_filter>> make_syscall_filter(const SyscallLimits& limits) {
  if (limits.may_use_network && limits.may_fork && limits.may_change_files) {
    return std::vector<sock_filter>();
  }
  FilterWriter writer;
  for (const long number : kAlwaysRefused) writer.refuse_call(number);
  writer.refuse_call_with_pointer(SYS_prlimit64, 2);
  if (!limits.may_use_network) writer.refuse_call(SYS_socket);
  if (!limits.may_fork) {
    writer.refuse_call(SYS_fork);
    writer.refuse_call(SYS_vfork);
    writer.refuse_call_without(SYS_clone, 0, CLONE_THREAD);
    // Its flags lie in memory, which a filter cannot read; the C library then falls back to clone.
    writer.refuse_call(SYS_clone3, ENOSYS);
  }
  if (!limits.may_change_files) {
    constexpr uint32_t kChanges = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
    writer.refuse_call_with(SYS_open, 1, kChanges);
    writer.refuse_call_with(SYS_openat, 2, kChanges);
    writer.refuse_call(SYS_openat2, ENOSYS);
    for (const long number : kChangesFiles) writer.refuse_call(number);
  }
  return writer.finish();
}
#else
Result<std::vector<sock_filter>> make_syscall_filter(const SyscallLimits& limits) {
  if (limits.may_use_network && limits.may_fork && limits.may_change_files) {
    return std::vector<sock_filter>();
  }
  return unimplemented("child processes without network can be made on x86-64 only");
}
#endif

int install_syscall_filter(const std::vector<sock_filter>& program) noexcept {
  if (program.empty()) return 0;
  const sock_fprog description = {static_cast<unsigned short>(program.size()),
                                  const_cast<sock_filter*>(program.data())};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &description) != 0) return errno;
  return 0;
}

}  // namespace mainspring
