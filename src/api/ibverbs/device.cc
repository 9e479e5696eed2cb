// The device and what opening it gives: ibv_get_device_list(3), ibv_open_device(3), ibv_query_device(3),
// ibv_query_device_ex(3) and their companions.
#include <endian.h>
#include <fcntl.h>
#include <pthread.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "api/ibverbs/convert_attributes.h"
#include "api/ibverbs/objects.h"
#include "api/ibverbs/out_of_memory.h"
#include "api/ibverbs/port.h"
#include "base/export.h"
#include "base/no_cancellation.h"
#include "runtime/configuration.h"
#include "runtime/device_identity.h"
#include "runtime/process.h"

using namespace verbatim;
using namespace verbatim::api;

// Exported in this library too; its header has no prototype.
extern "C" const char* ibv_get_sysfs_path(void);

namespace {

// Helper libraries of real adapters look behind the ibv_device for the driver it belongs to (mlx5dv_is_supported and
// the like) and must find zeros there: 712 bytes is the drivers' own view of a device in libibverbs 44.
struct DeviceObject {
  ibv_device base;
  char no_driver[712 - sizeof(ibv_device)];
};
static_assert(sizeof(DeviceObject) >= 712);

const model::DeviceAttributes& attributes() {
  static const model::DeviceAttributes& once =
      *std::make_unique<const model::DeviceAttributes>(runtime::device_attributes(runtime::configuration())).release();
  return once;
}

template <size_t size>
void copy_text(char (&to)[size], std::string_view text) {
  to[text.copy(to, size - 1)] = '\0';
}

// Lives as long as the process, so that a pointer to it is good after ibv_free_device_list.
ibv_device* the_device() {
  static DeviceObject* const once = [] {
    static DeviceObject object;
    const std::string name(model::kDeviceName);
    const std::string sysfs = ibv_get_sysfs_path();
    object.base.node_type = static_cast<ibv_node_type>(attributes().node_type);
    object.base.transport_type = static_cast<ibv_transport_type>(attributes().transport);
    copy_text(object.base.name, name);
    copy_text(object.base.dev_name, name);
    copy_text(object.base.dev_path, sysfs + "/class/infiniband_verbs/" + name);
    copy_text(object.base.ibdev_path, sysfs + "/class/infiniband/" + name);
    return &object;
  }();
  return &once->base;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                    size_t attr_size) {
  // The caller must at least learn from comp_mask that there is nothing more; no input is defined yet.
  constexpr size_t kLeast = offsetof(ibv_device_attr_ex, comp_mask) + sizeof attr->comp_mask;
  if (attr_size < kLeast || (input != nullptr && input->comp_mask != 0)) return EINVAL;
  copy_to_caller(attr, attr_size, to_c_extended(object_of(context).device.attributes()));
  return 0;
}

// The clock of completion timestamps. Its ticks are nanoseconds, all in tv_nsec, as programs know it from other
// devices.
int query_rt_values(ibv_context* context, ibv_values_ex* values) {
  if (values->comp_mask & ~uint32_t{IBV_VALUES_MASK_RAW_CLOCK}) return EINVAL;
  if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK)
    values->raw_clock = {.tv_sec = 0, .tv_nsec = object_of(context).device.clock().now().ns};
  return 0;
}

// The slots of verbs_context that stay NULL make their inline function return EOPNOTSUPP.
void fill_context(ContextObject& object, ibv_device* device) {
  verbs_context& base = object.base;
  base.query_port = query_port;
  base.query_device_ex = query_device_ex;
  base.query_rt_values = query_rt_values;
  base.sz = sizeof base;

  ibv_context& context = base.context;
  context.device = device;
  context.cmd_fd = object.command.get();
  context.async_fd = object.events.fd();
  context.num_comp_vectors = object.device.attributes().num_comp_vectors;
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  fill_data_path_slots(base);
  fill_queue_pair_slots(base);
  fill_shared_receive_queue_slots(base);
  fill_xrc_domain_slots(base);
  fill_memory_slots(base);
  fill_window_slots(context.ops);
  fill_completion_queue_slots(base);
  fill_parent_domain_slots(base);
}

ibv_device** list_devices() {
  ibv_device* const device = the_device();
  auto** const list = static_cast<ibv_device**>(std::calloc(2, sizeof(ibv_device*)));
  if (!list) return fail(ENOMEM);
  list[0] = device;
  return list;
}

ibv_context* open_device(ibv_device* device) {
  const Result<runtime::Process*> process = runtime::Process::get();
  if (!process.ok()) return fail(process.error());
  Result<EventCounter> counter = EventCounter::create();
  if (!counter.ok()) return fail(counter.error());
  // Whoever takes it for a kernel device gets EBADF, as open(2) says of O_PATH.
  FileDescriptor command(open("/", O_PATH | O_CLOEXEC));
  if (!command.valid()) return fail(errno);
  // Any context may have an event when the host's addresses change, and programs wait for it without a call of ours.
  if (const Status status = process.value()->start_engine(); !status.ok()) return fail(status.error);
  model::Device& implementation = process.value()->device();
  // Those who open the device anew find the addresses there are now.
  implementation.refresh_gids();

  std::unique_ptr<ContextObject> object(new ContextObject{
      .device = implementation, .events = model::AsyncEvents(counter.take()), .command = std::move(command)});
  fill_context(*object, device);
  if (const int error = pthread_mutex_init(&object->base.context.mutex, nullptr); error != 0) return fail(error);
  implementation.add(object->events);
  return &object.release()->base.context;
}

}  // namespace

VERBATIM_EXPORT ibv_device** ibv_get_device_list(int* num_devices) {
  ibv_device** const list = or_no_memory<list_devices>();
  if (list && num_devices) *num_devices = 1;
  return list;
}

VERBATIM_EXPORT void ibv_free_device_list(ibv_device** list) { std::free(list); }

VERBATIM_EXPORT const char* ibv_get_device_name(ibv_device* device) { return device->name; }

VERBATIM_EXPORT __be64 ibv_get_device_guid(ibv_device*) { return htobe64(attributes().node_guid); }

// The kernel numbers devices of its own only.
VERBATIM_EXPORT int ibv_get_device_index(ibv_device*) { return -1; }

VERBATIM_EXPORT ibv_context* ibv_open_device(ibv_device* device) {
  const NoCancellation guard;
  return or_no_memory<open_device>(device);
}

// Also frees what was made in the context and is still there, as the kernel would.
VERBATIM_EXPORT int ibv_close_device(ibv_context* context) {
  const std::unique_ptr<ContextObject> object(&object_of(context));
  object->device.remove(object->events);
  // The kernel does not wait for acknowledgements either, which may never come.
  object->events.close();
  object->channels.for_each([](ChannelObject& channel) { channel.impl.close(); });
  pthread_mutex_destroy(&context->mutex);
  return 0;
}

VERBATIM_EXPORT int ibv_query_device(ibv_context* context, ibv_device_attr* device_attr) {
  *device_attr = to_c(object_of(context).device.attributes());
  return 0;
}
