// The guarded atomics for AArch64 (AAPCS64): x0 = where, x1 and x2 = operands, the last argument = the thread's watch
// (interruption.h); x0 = 0 and x1 = what the word was, or x0 = 2 when the thread was interrupted before.
// Leaves that never move sp, resumed where guarded_copy_aarch64.S says: x0 = 1 and x1 = the address of the fault.
//
// Exclusive pairs, which every AArch64 processor has. They are atomic against the single instructions of later ones.
// The barrier at the end keeps what follows behind the store, also where it is read without acquire.
#if defined(__aarch64__)

// What the kernel asks of the place where it puts an interrupted thread (rseq(2)).
#define ABORT_SIGNATURE 0xd428bc00

// A sequence that ends with the one instruction that changes memory. `verbatim_NAME_unwatched` is the watch of who is
// not watched.
.macro SEQUENCE name
  .pushsection .data.rel.ro, "aw"
  .p2align 5
  .globl verbatim_\name\()_sequence
  .hidden verbatim_\name\()_sequence
verbatim_\name\()_sequence:
  .word 0, 0
  .xword .Lbegin_\name, .Lend_\name - .Lbegin_\name, .Linterrupted
  .globl verbatim_\name\()_unwatched
  .hidden verbatim_\name\()_unwatched
verbatim_\name\()_unwatched:
  .xword verbatim_\name\()_sequence
  .popsection
.endm

.macro FUNCTION name
  .p2align 4
  .globl verbatim_guarded_\name
  .hidden verbatim_guarded_\name
  .type verbatim_guarded_\name, %function
verbatim_guarded_\name:
  .cfi_startproc
.endm

// Whether the thread, whose watch is at `watch`, was interrupted since it is watched for x6.
.macro CHECK watch
  ldr x7, [\watch]
  cmp x7, x6
  b.ne .Linterrupted
.endm

.macro SEQUENCE_TO_X6 name
  adrp x6, verbatim_\name\()_sequence
  add x6, x6, :lo12:verbatim_\name\()_sequence
.endm

.macro END name
  mov x0, #0
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
  SEQUENCE_TO_X6 compare_swap
.Lbegin_compare_swap:
  CHECK x3
  ldaxr x4, [x0]
  cmp x4, x1
  b.ne .Lcompared
  stlxr w5, x2, [x0]
.Lend_compare_swap:
  cbnz w5, .Lbegin_compare_swap
.Lcompared:
  dmb ish
  mov x1, x4
END compare_swap

SEQUENCE fetch_add
FUNCTION fetch_add
  SEQUENCE_TO_X6 fetch_add
.Lbegin_fetch_add:
  CHECK x2
  ldaxr x3, [x0]
  add x4, x3, x1
  stlxr w5, x4, [x0]
.Lend_fetch_add:
  cbnz w5, .Lbegin_fetch_add
  dmb ish
  mov x1, x3
END fetch_add

SEQUENCE store
FUNCTION store
  SEQUENCE_TO_X6 store
.Lbegin_store:
  CHECK x2
  stlr x1, [x0]
.Lend_store:
  dmb ish
END store

  .inst ABORT_SIGNATURE
.Linterrupted:
  mov x0, #2
  ret

  .globl verbatim_guarded_atomic_end
  .hidden verbatim_guarded_atomic_end
verbatim_guarded_atomic_end:

#endif

  .section .note.GNU-stack, "", %progbits
