// The part of NVML that PyTorch, pynvml and ComfyUI ask; a function that is not here is not found.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "ledger.h"

namespace {

constexpr int SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7;
using Device = uint64_t;  // the physical index plus one

const DeviceWords &own(Device device) { return *fakecuda_words((int)device - 1); }
bool known(Device device) { return device >= 1 && (int)device <= fakecuda_physical_count(); }

struct Memory {
    unsigned long long total, free, used;
};
struct Memory2 {
    unsigned int version;
    unsigned long long total, reserved, free, used;
};
struct Process1 {
    unsigned int pid;
    unsigned long long used;
};
struct Process {
    unsigned int pid;
    unsigned long long used;
    unsigned int gpu_instance, compute_instance;
};

Memory memory(Device device) {
    const DeviceWords &words = own(device);
    uint64_t used = words.used_bytes + words.other_process_bytes;
    if (used > words.capacity_bytes) used = words.capacity_bytes;
    return {words.capacity_bytes, words.capacity_bytes - used, used};
}

}  // namespace

extern "C" {

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlInit(void) { return SUCCESS; }
int nvmlInitWithFlags(unsigned int) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int error) { return error ? "not possible" : "success"; }

int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13000; return SUCCESS; }
int nvmlSystemGetCudaDriverVersion(int *version) { *version = 13000; return SUCCESS; }
int nvmlSystemGetDriverVersion(char *text, unsigned int size) {
    snprintf(text, size, "580.00");
    return SUCCESS;
}
int nvmlDeviceGetCount_v2(unsigned int *count) {
    *count = fakecuda_physical_count();
    return SUCCESS;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device *device) {
    *device = index + 1;
    return known(*device) ? SUCCESS : INVALID_ARGUMENT;
}
int nvmlDeviceGetHandleByUUID(const char *text, Device *device) {
    unsigned int number = 0;
    if (sscanf(text, "GPU-fafafafa-fafa-fafa-fafa-fafafafafa%02x", &number) != 1)
        return INVALID_ARGUMENT;
    *device = number + 1;
    return known(*device) ? SUCCESS : INVALID_ARGUMENT;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *text, Device *device) {
    unsigned int domain = 0, bus = 0;
    if (sscanf(text, "%x:%x", &domain, &bus) != 2) return INVALID_ARGUMENT;
    *device = bus;
    return known(*device) ? SUCCESS : INVALID_ARGUMENT;
}
int nvmlDeviceGetIndex(Device device, unsigned int *index) {
    *index = (unsigned int)device - 1;
    return SUCCESS;
}
int nvmlDeviceGetName(Device, char *text, unsigned int size) {
    snprintf(text, size, "%s", fakecuda_device_name());
    return SUCCESS;
}
int nvmlDeviceGetUUID(Device device, char *text, unsigned int size) {
    snprintf(text, size, "GPU-fafafafa-fafa-fafa-fafa-fafafafafa%02x", (int)device - 1);
    return SUCCESS;
}
int nvmlDeviceGetCudaComputeCapability(Device, int *major, int *minor) {
    *major = fakecuda_capability() / 10;
    *minor = fakecuda_capability() % 10;
    return SUCCESS;
}
int nvmlDeviceGetMemoryInfo(Device device, Memory *found) {
    if (!known(device)) return INVALID_ARGUMENT;
    *found = memory(device);
    return SUCCESS;
}
int nvmlDeviceGetMemoryInfo_v2(Device device, Memory2 *found) {
    if (!known(device)) return INVALID_ARGUMENT;
    Memory plain = memory(device);
    *found = {found->version, plain.total, 0, plain.free, plain.used};
    return SUCCESS;
}
int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned int *count, Process *found) {
    // In a container NVML gives the numbers that the host has for processes.
    const char *host = getenv("FAKECUDA_HOST_PID");
    unsigned int number = host ? atoi(host) : 0, room = *count;
    const DeviceWords &words = own(device);
    *count = number && words.other_process_bytes ? 2 : 1;
    if (room < *count) return INSUFFICIENT_SIZE;
    found[0] = {number ? number : (unsigned int)getpid(), words.used_bytes, ~0u, ~0u};
    if (*count == 2) found[1] = {number + 1, words.other_process_bytes, ~0u, ~0u};
    return SUCCESS;
}
int nvmlDeviceGetComputeRunningProcesses_v2(Device device, unsigned int *count, Process *found) {
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, found);
}
int nvmlDeviceGetComputeRunningProcesses(Device device, unsigned int *count, Process1 *found) {
    Process both[2];
    int answer = nvmlDeviceGetComputeRunningProcesses_v3(device, count, both);
    for (unsigned int i = 0; answer == SUCCESS && i < *count; ++i)
        found[i] = {both[i].pid, both[i].used};
    return answer;
}
int nvmlDeviceGetUtilizationRates(Device, unsigned int rates[2]) {
    rates[0] = rates[1] = 0;
    return SUCCESS;
}
// PyTorch looks these up together with the ones it needs.
int nvmlDeviceGetGpuFabricInfoV(Device, void *) { return NOT_SUPPORTED; }
int nvmlDeviceGetNvLinkRemoteDeviceType(Device, unsigned int, int *) { return NOT_SUPPORTED; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device, unsigned int, void *) { return NOT_SUPPORTED; }
}
