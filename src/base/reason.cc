#include "base/reason.h"

namespace verbatim {
namespace {

constexpr ReasonText kTable[] = {
    {Reason::none, "none", "no error"},
    {Reason::local_key_unknown, "local-key-unknown", "an SGE's lkey is no memory region of this process"},
    {Reason::local_key_other_pd, "local-key-other-pd", "an SGE's memory region belongs to another protection domain"},
    {Reason::local_range, "local-range", "an SGE reaches outside its memory region"},
    {Reason::local_no_write_access, "local-no-write-access",
     "data would be written to a memory region without IBV_ACCESS_LOCAL_WRITE"},
    {Reason::local_memory_gone, "local-memory-gone", "memory behind an SGE is no longer mapped"},
    {Reason::message_too_long, "message-too-long", "the message is longer than the port's max_msg_sz"},
    {Reason::no_read_depth, "no-read-depth", "a READ was posted to a queue pair whose max_rd_atomic is 0"},
    {Reason::atomic_length, "atomic-length", "the SGEs of an atomic operation do not total 8 bytes"},
    {Reason::operation_not_for_type, "operation-not-for-type",
     "a queue pair of this type does not have this operation"},
    {Reason::datagram_too_long, "datagram-too-long", "a datagram is longer than the path MTU"},
    {Reason::datagram_other_pd, "datagram-other-pd",
     "the address handle belongs to another protection domain than the queue pair"},
    {Reason::remote_key_unknown, "remote-key-unknown", "the rkey is no memory region of the peer"},
    {Reason::remote_key_other_pd, "remote-key-other-pd",
     "the peer's memory region belongs to another protection domain than its queue pair"},
    {Reason::remote_range, "remote-range", "the operation reaches outside the peer's memory region"},
    {Reason::remote_no_access, "remote-no-access", "the peer's memory region does not grant this operation"},
    {Reason::remote_memory_gone, "remote-memory-gone", "memory behind the peer's region is no longer mapped"},
    {Reason::remote_operation_off, "remote-operation-off",
     "the peer's queue pair does not allow this operation (qp_access_flags)"},
    {Reason::remote_no_read_depth, "remote-no-read-depth", "the peer's queue pair has max_dest_rd_atomic 0"},
    {Reason::remote_key_other_qp, "remote-key-other-qp", "the peer's memory window is bound to another queue pair"},
    {Reason::remote_unaligned_atomic, "remote-unaligned-atomic", "the address of an atomic is no multiple of 8"},
    {Reason::remote_receive_too_short, "remote-receive-too-short", "the message is longer than the peer's receive"},
    {Reason::remote_receive_bad, "remote-receive-bad", "the peer's receive names memory that it may not use"},
    {Reason::remote_no_receive, "remote-no-receive",
     "the peer had no receive posted until the RNR retries were used up"},
    {Reason::remote_no_shared_queue, "remote-no-shared-queue",
     "the peer has no shared receive queue of that number in the queue pair's XRC domain"},
    {Reason::peer_dead, "peer-dead", "the process that owns the peer queue pair has ended"},
    {Reason::peer_not_ready, "peer-not-ready",
     "the peer queue pair stayed in RESET, INIT or ERR, or was destroyed, until the retries were used up"},
    {Reason::peer_unknown, "peer-unknown", "no process with the peer's queue pair number appeared in time"},
    {Reason::peer_names_another, "peer-names-another",
     "the peer queue pair is connected to another queue pair or GID than this one"},
    {Reason::bad_response, "bad-response", "what the peer answered is no answer to what it was asked"},
    {Reason::flushed, "flushed", "the queue pair was in ERR"},
    {Reason::refused_by_peer, "refused-by-peer", "the peer found an error in an operation on this queue pair"},
    {Reason::completion_queue_full, "completion-queue-full", "a completion found its queue full"},
    {Reason::receive_too_short, "receive-too-short", "a message came that is longer than the receive"},
    {Reason::no_global_route, "no-global-route",
     "the link is Ethernet and the address has no GRH: use -g (is_global and a GID)"},
    {Reason::not_this_host, "not-this-host", "the destination GID is no address of this host"},
    {Reason::no_agent, "no-agent", "the agent that introduces processes could not be reached or started"},
    {Reason::window_unknown, "window-unknown", "what is to be bound is no memory window of the queue pair's PD"},
    {Reason::window_bound, "window-bound", "a type 2 memory window is bound again before it was invalidated"},
    {Reason::window_region, "window-region",
     "a memory window is bound to what is no memory region of the queue pair's PD, or a zero-based one"},
    {Reason::window_rights, "window-rights",
     "the memory region does not allow windows (IBV_ACCESS_MW_BIND), or not with these rights"},
    {Reason::window_range, "window-range", "a memory window reaches outside its memory region"},
    {Reason::not_invalidatable, "not-invalidatable",
     "the key to invalidate is no type 2 memory window that this queue pair could have bound"},
    {Reason::dropped_no_receive, "dropped-no-receive", "an unreliable message found no receive"},
    {Reason::dropped_qkey, "dropped-qkey", "a datagram had another Q_Key than the queue pair"},
    {Reason::dropped_no_peer, "dropped-no-peer", "there is no queue pair that takes an unreliable message"},
    {Reason::dropped_too_long, "dropped-too-long", "an unreliable message is longer than the receive"},
    {Reason::mad_length, "mad-length", "a management datagram is not 256 bytes long"},
    {Reason::mad_not_cm, "mad-not-cm",
     "a management datagram is not of the communication manager's class, version and method"},
    {Reason::mad_attribute, "mad-attribute", "the communication manager has no message of this attribute ID"},
    {Reason::mad_field, "mad-field", "a field of a communication manager's message has a value that cannot be"},
    {Reason::rdma_ip_cm_header, "rdma-ip-cm-header",
     "a connection request does not begin with the addresses that the RDMA IP CM service puts there"},
};

}  // namespace

const ReasonText& describe(Reason reason) {
  for (const ReasonText& row : kTable)
    if (row.reason == reason) return row;
  return kTable[0];
}

}  // namespace verbatim
