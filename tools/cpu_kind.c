/* Lets a program believe that it runs on an older x86 CPU: CPUID answers with some bits cleared.

   Linux on Intel can make CPUID fault (arch_prctl, ARCH_SET_CPUID). Each fault arrives here as SIGSEGV, the
   instruction is done with faulting off, and bits are cleared in its answer. Threads and forks inherit that; a program
   that is executed gets it anew, since LD_PRELOAD is inherited too. Code that was compiled for the newer CPU still
   runs: only libraries that ask choose other kernels. `cpu_kind.py` compiles this and says which bits to clear. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define ARCH_SET_CPUID 0x1012
#define FEATURES 7 /* the leaf that tells of everything after AVX */

typedef int (*Sigaction)(int, const struct sigaction *, struct sigaction *);

static unsigned cleared_ebx, cleared_ecx, cleared_edx; /* in leaf 7.0; 7.1 answers nothing */
static struct sigaction theirs; /* what the program does at SIGSEGV otherwise: Python's faulthandler, say */
static int masking;

static int real_sigaction(int number, const struct sigaction *new, struct sigaction *old) {
    static Sigaction real;
    if (!real) real = (Sigaction)dlsym(RTLD_NEXT, "sigaction");
    return real(number, new, old);
}

static void pass_on(int number, siginfo_t *info, void *context) {
    if (theirs.sa_flags & SA_SIGINFO) {
        theirs.sa_sigaction(number, info, context);
    } else if (theirs.sa_handler == SIG_DFL || theirs.sa_handler == SIG_IGN) {
        struct sigaction usual;
        memset(&usual, 0, sizeof usual);
        real_sigaction(SIGSEGV, &usual, NULL); /* the instruction faults once more, and ends the program */
    } else {
        theirs.sa_handler(number);
    }
}

static void answer(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    /* A general protection fault has no address. Elsewhere the place itself may not be readable. */
    const unsigned char *code = (const unsigned char *)registers[REG_RIP];
    if (info->si_code != SI_KERNEL || code[0] != 0x0f || code[1] != 0xa2) {
        pass_on(number, info, context);
        return;
    }
    unsigned leaf = (unsigned)registers[REG_RAX], part = (unsigned)registers[REG_RCX];
    unsigned a, b, c, d;
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1);
    __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(leaf), "c"(part));
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
    if (leaf == FEATURES && part == 0) {
        b &= ~cleared_ebx;
        c &= ~cleared_ecx;
        d &= ~cleared_edx;
    } else if (leaf == FEATURES) {
        a = b = c = d = 0;
    }
    registers[REG_RAX] = a;
    registers[REG_RBX] = b;
    registers[REG_RCX] = c;
    registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
}

/* Whoever sets a handler for SIGSEGV sets the one that ours calls. */
int sigaction(int number, const struct sigaction *new, struct sigaction *old) {
    if (number != SIGSEGV || !masking) return real_sigaction(number, new, old);
    struct sigaction before = theirs;
    if (new) theirs = *new;
    if (old) *old = before;
    return 0;
}

__sighandler_t signal(int number, __sighandler_t handler) {
    struct sigaction new, old;
    memset(&new, 0, sizeof new);
    new.sa_handler = handler;
    new.sa_flags = SA_RESTART;
    return sigaction(number, &new, &old) ? SIG_ERR : old.sa_handler;
}

static unsigned number_in(const char *name) {
    const char *text = getenv(name);
    return text ? (unsigned)strtoul(text, NULL, 16) : 0;
}

__attribute__((constructor)) static void begin(void) {
    cleared_ebx = number_in("CPU_KIND_EBX");
    cleared_ecx = number_in("CPU_KIND_ECX");
    cleared_edx = number_in("CPU_KIND_EDX");
    struct sigaction ours;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = answer;
    ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    if (real_sigaction(SIGSEGV, &ours, &theirs)) _exit(97);
    masking = 1;
    if (syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0)) _exit(98); /* this machine cannot do it */
}
