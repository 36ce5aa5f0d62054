#include "pteron/runtime/platform/isolation.h"

#if defined(__linux__)
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <fstream>
#include <system_error>
#include <vector>
#endif

namespace pteron {

#if defined(__linux__)
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif

Error failure(const char* what) {
  return make_error(Error::NotSupported, "%s: %s; isolation needs Linux 5.13 or newer", what,
                    std::generic_category().message(errno).c_str());
}

// What computing, and loading code from memory, needs. Landlock decides what may be opened.
// clang-format off: as many as fit
constexpr int kAllowed[] = {
    SYS_openat, SYS_read, SYS_write, SYS_writev, SYS_pread64, SYS_lseek, SYS_close, SYS_fstat,
    SYS_newfstatat, SYS_memfd_create, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise,
    SYS_brk, SYS_futex, SYS_sched_yield, SYS_sched_getaffinity, SYS_getcpu, SYS_set_robust_list,
    SYS_rseq, SYS_membarrier, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn,
    SYS_sigaltstack, SYS_restart_syscall, SYS_exit, SYS_exit_group, SYS_getpid, SYS_gettid,
    SYS_nanosleep, SYS_clock_nanosleep, SYS_clock_gettime, SYS_clock_getres, SYS_gettimeofday,
    SYS_getrandom, SYS_getrusage, SYS_uname, SYS_sysinfo,
};
// clang-format on

// What libraries try, and do without.
constexpr int kRefused[] = {
#if defined(__x86_64__)
    SYS_readlink,          SYS_access,    SYS_stat,    SYS_poll,   SYS_mkdir,
#endif
    SYS_readlinkat,        SYS_faccessat, SYS_mkdirat, SYS_statx,  SYS_ioctl,
    SYS_sched_setaffinity, SYS_getuid,    SYS_geteuid, SYS_getgid, SYS_getegid};

constexpr sock_filter statement(unsigned code, uint32_t value) {
  return BPF_STMT(static_cast<uint16_t>(code), value);
}

constexpr sock_filter jump(unsigned code, uint32_t value, uint8_t if_true, uint8_t if_false) {
  return BPF_JUMP(static_cast<uint16_t>(BPF_JMP | BPF_K | code), value, if_true, if_false);
}

class Filter {
 public:
  Filter() {
    load(offsetof(seccomp_data, arch));
    add({jump(BPF_JEQ, kArchitecture, 1, 0), ret(SECCOMP_RET_KILL_PROCESS)});
    load(offsetof(seccomp_data, nr));
    for (const int number : kAllowed) on(number, SECCOMP_RET_ALLOW);
    for (const int number : kRefused) on(number, SECCOMP_RET_ERRNO | EACCES);
    // Its flags are in memory, where a filter cannot read; the C library then takes clone.
    on(SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
    constexpr uint32_t kThread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                                 CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID |
                                 CLONE_CHILD_CLEARTID;
    on_argument(SYS_clone, 0, {kThread});
    on_argument(SYS_fcntl, 1, {F_GETFD, F_SETFD, F_GETFL, F_ADD_SEALS, F_GET_SEALS});
#if defined(__x86_64__)
    // ARCH_REQ_XCOMP_PERM, of registers that the process may use (AMX).
    on_argument(SYS_arch_prctl, 0, {0x1023});
#endif
    on_argument(SYS_prctl, 0, {PR_SET_NAME, 0x53564d41 /* PR_SET_VMA */});
    on_argument(SYS_tgkill, 0, {static_cast<uint32_t>(getpid())});
    // The old limits only: no pointer to new ones.
    on_argument(SYS_prlimit64, 2, {0});
    add({ret(SECCOMP_RET_KILL_PROCESS)});
  }

  Error install() {
    const sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 ? Error(Error::Ok)
                                                                     : failure("seccomp");
  }

 private:
  static constexpr sock_filter ret(uint32_t action) { return statement(BPF_RET | BPF_K, action); }

  void add(std::initializer_list<sock_filter> code) { code_.insert(code_.end(), code); }
  void load(size_t offset) {
    add({statement(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset))});
  }
  void on(int number, uint32_t action) {
    add({jump(BPF_JEQ, static_cast<uint32_t>(number), 0, 1), ret(action)});
  }

  // Allows a call with one of these values of an argument, whose high half is 0.
  void on_argument(int number, size_t index, std::initializer_list<uint32_t> values) {
    const auto length = static_cast<uint8_t>(5 + 2 * values.size());
    add({jump(BPF_JEQ, static_cast<uint32_t>(number), 0, length)});
    const size_t low = offsetof(seccomp_data, args) + 8 * index;  // little-endian
    load(low + 4);
    add({jump(BPF_JEQ, 0, 1, 0), ret(SECCOMP_RET_KILL_PROCESS)});
    load(low);
    for (const uint32_t value : values) {
      add({jump(BPF_JEQ, value, 0, 1), ret(SECCOMP_RET_ALLOW)});
    }
    add({ret(SECCOMP_RET_KILL_PROCESS)});
  }

  std::vector<sock_filter> code_;
};

// What says which instructions and how many threads there are.
constexpr const char* kReadable[] = {"/proc/cpuinfo", "/proc/self/cgroup", "/proc/self/mountinfo",
                                     "/sys/devices/system/cpu", "/sys/fs/cgroup"};

// No other file, and no port. The system's header may be older than its kernel.
Error close_files() {
  constexpr long kCreate = 444, kAddRule = 445, kRestrict = 446;
  constexpr uint64_t kReadFile = 4;
  const long version = syscall(kCreate, nullptr, 0, 1);
  if (version < 1) return failure("Landlock");
  struct {
    uint64_t files, ports, scopes;
  } const handled = {version >= 5   ? 0xffffu
                     : version >= 3 ? 0x7fffu
                     : version == 2 ? 0x3fffu
                                    : 0x1fffu,
                     3, 3};
  const size_t nbytes = version >= 6 ? 24 : version >= 4 ? 16 : 8;
  const long rules = syscall(kCreate, &handled, nbytes, 0);
  for (const char* const path : kReadable) {
    struct __attribute__((packed)) {
      uint64_t allowed;
      int32_t descriptor;
    } const rule = {kReadFile, open(path, O_PATH | O_CLOEXEC)};
    if (rule.descriptor < 0) continue;
    const long added = syscall(kAddRule, rules, 1, &rule, 0);
    close(rule.descriptor);
    if (added != 0) return failure("Landlock");
  }
  if (rules < 0 || syscall(kRestrict, rules, 0) != 0) return failure("Landlock");
  close(static_cast<int>(rules));
  return Error::Ok;
}

Error limit(__rlimit_resource_t what, uint64_t value) {
  const rlimit bound{value, value};
  return setrlimit(what, &bound) == 0 ? Error(Error::Ok) : failure("setrlimit");
}

}  // namespace

Error isolate(uint64_t nbytes) {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const uint64_t used = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  PTERON_RETURN_IF_ERROR(limit(RLIMIT_AS, used + nbytes));
  PTERON_RETURN_IF_ERROR(limit(RLIMIT_FSIZE, nbytes / 4));
  PTERON_RETURN_IF_ERROR(limit(RLIMIT_CORE, 0));
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failure("PR_SET_NO_NEW_PRIVS");
  PTERON_RETURN_IF_ERROR(close_files());
  PTERON_RETURN_IF_ERROR(limit(RLIMIT_NOFILE, 8));  // each may be a file in memory
  return Filter().install();
}

#else

Error isolate(uint64_t) {
  return make_error(Error::NotSupported, "isolation needs Linux 5.13 or newer");
}

#endif

}  // namespace pteron
