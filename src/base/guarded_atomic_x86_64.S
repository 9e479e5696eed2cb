// The guarded atomics for x86-64 (System V): rdi = where, rsi and rdx = operands, the last argument = the thread's watch
// (interruption.h); rax = 0 and rdx = what the word was, or rax = 2 when the thread was interrupted before.
// Leaves that never move rsp, resumed where guarded_copy_x86_64.S says: rax = 1 and rdx = the address of the fault.
#if defined(__x86_64__)

// What the kernel asks of the place where it puts an interrupted thread (rseq(2)).
#define ABORT_SIGNATURE 0x53053053

// A sequence that ends with the one instruction that changes memory. `verbatim_NAME_unwatched` is the watch of who is
// not watched.
.macro SEQUENCE name
  .pushsection .data.rel.ro, "aw"
  .p2align 5
  .globl verbatim_\name\()_sequence
  .hidden verbatim_\name\()_sequence
verbatim_\name\()_sequence:
  .long 0, 0
  .quad .Lbegin_\name, .Lend_\name - .Lbegin_\name, .Linterrupted
  .globl verbatim_\name\()_unwatched
  .hidden verbatim_\name\()_unwatched
verbatim_\name\()_unwatched:
  .quad verbatim_\name\()_sequence
  .popsection
.endm

.macro FUNCTION name
  .p2align 4
  .globl verbatim_guarded_\name
  .hidden verbatim_guarded_\name
  .type verbatim_guarded_\name, @function
verbatim_guarded_\name:
  .cfi_startproc
.endm

.macro END name
  xorl %eax, %eax
  ret
  .cfi_endproc
  .size verbatim_guarded_\name, .-verbatim_guarded_\name
.endm

  .text
  .p2align 4
  .globl verbatim_guarded_atomic
  .hidden verbatim_guarded_atomic
verbatim_guarded_atomic:

SEQUENCE compare_swap
FUNCTION compare_swap
  leaq verbatim_compare_swap_sequence(%rip), %r8
  movq %rsi, %rax
.Lbegin_compare_swap:
  cmpq %r8, (%rcx)
  jne .Linterrupted
  lock cmpxchgq %rdx, (%rdi)
.Lend_compare_swap:
  movq %rax, %rdx
END compare_swap

SEQUENCE fetch_add
FUNCTION fetch_add
  leaq verbatim_fetch_add_sequence(%rip), %r8
.Lbegin_fetch_add:
  cmpq %r8, (%rdx)
  jne .Linterrupted
  lock xaddq %rsi, (%rdi)
.Lend_fetch_add:
  movq %rsi, %rdx
END fetch_add

// An exchange with memory is locked without being told.
SEQUENCE store
FUNCTION store
  leaq verbatim_store_sequence(%rip), %r8
.Lbegin_store:
  cmpq %r8, (%rdx)
  jne .Linterrupted
  xchgq %rsi, (%rdi)
.Lend_store:
  movq %rsi, %rdx
END store

  .byte 0x0f, 0xb9, 0x3d  // an undefined instruction, with the signature as its operand
  .long ABORT_SIGNATURE
.Linterrupted:
  movl $2, %eax
  ret

  .globl verbatim_guarded_atomic_end
  .hidden verbatim_guarded_atomic_end
verbatim_guarded_atomic_end:

#endif

  .section .note.GNU-stack, "", %progbits
