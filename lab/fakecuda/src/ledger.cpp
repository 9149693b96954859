// The ledger: where it lies, what the environment sets in it, and who may have how much.
#include "ledger.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr uint64_t MIB = 1u << 20;

// Item `index` of a comma-separated setting, the last one for devices beyond it.
double setting(const char *name, double otherwise, int index = 0) {
    const char *text = getenv(name);
    if (!text || !*text) return otherwise;
    for (; index > 0; --index) {
        const char *comma = strchr(text, ',');
        if (!comma) break;
        text = comma + 1;
    }
    return atof(text);
}

void read_settings(Ledger &book) {
    const char *capability = getenv("FAKECUDA_CAPABILITY");
    int major = 8, minor = 6;
    if (capability) sscanf(capability, "%d.%d", &major, &minor);
    book.capability = major * 10 + minor;
    book.device_count = std::clamp((int)setting("FAKECUDA_DEVICES", 1), 0, MAX_DEVICES);
    book.cudnn_workspace_bytes = setting("FAKECUDA_CUDNN_WORKSPACE_MIB", 0) * MIB;
    for (int i = 0; i < MAX_DEVICES; ++i) {
        DeviceWords &device = book.devices[i];
        device.capacity_bytes = setting("FAKECUDA_CAPACITY_MIB", 8192, i) * MIB;
        device.other_process_bytes = setting("FAKECUDA_OTHER_MIB", 0, i) * MIB;
        device.context_bytes = setting("FAKECUDA_CONTEXT_MIB", 0, i) * MIB;
        device.fail_in = setting("FAKECUDA_FAIL_IN", 0, i);
        device.fail_times = setting("FAKECUDA_FAIL_TIMES", 1, i);
        device.fail_above_bytes = setting("FAKECUDA_FAIL_ABOVE_MIB", 0, i) * MIB;
    }
    book.pid = getpid();
    book.magic = LEDGER_MAGIC;  // last: from here on a reader may trust the rest
}

bool belongs_to_another(const Ledger &book) {
    return book.magic == LEDGER_MAGIC && book.pid != (uint64_t)getpid() &&
           (kill((pid_t)book.pid, 0) == 0);
}

// The file that FAKECUDA_LEDGER names, or memory of our own: a child process of the one that owns
// the file gets devices of its own too.
Ledger *open_ledger() {
    const char *path = getenv("FAKECUDA_LEDGER");
    int file = path && *path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file >= 0 && ftruncate(file, sizeof(Ledger)) == 0) {
        void *at = mmap(nullptr, sizeof(Ledger), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (at != MAP_FAILED && !belongs_to_another(*(Ledger *)at)) {
            memset(at, 0, sizeof(Ledger));
            return (Ledger *)at;
        }
    }
    return new Ledger();
}

std::vector<int> visible_devices(int count) {
    std::vector<int> found;
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    if (!text) {
        for (int i = 0; i < count; ++i) found.push_back(i);
        return found;
    }
    while (*text) {  // as the driver does: the list ends at the first name it does not know
        char *end;
        long index = strtol(text, &end, 10);
        if (end == text || index < 0 || index >= count) break;
        found.push_back((int)index);
        text = *end == ',' ? end + 1 : "";
    }
    return found;
}

}  // namespace

std::mutex &driver_lock() {
    static std::mutex *lock = new std::mutex();  // never destroyed: libraries call at exit too
    return *lock;
}

Ledger &ledger() {
    static Ledger *book = [] {
        Ledger *made = open_ledger();
        read_settings(*made);
        return made;
    }();
    return *book;
}

static const std::vector<int> &visible() {
    static auto *found = new std::vector<int>(visible_devices((int)ledger().device_count));
    return *found;
}

int device_count() { return (int)visible().size(); }
int physical_index(int device) { return visible()[device]; }
DeviceWords &words(int device) { return ledger().devices[physical_index(device)]; }

uint64_t free_bytes(int device) {
    const DeviceWords &own = words(device);
    uint64_t taken = own.used_bytes + own.other_process_bytes;
    return taken < own.capacity_bytes ? own.capacity_bytes - taken : 0;
}

bool may_allocate(int device, uint64_t bytes) {
    DeviceWords &own = words(device);
    own.allocations += 1;
    if (!own.fail_in || bytes < own.fail_above_bytes) return true;
    if (own.fail_in > 1) {
        own.fail_in -= 1;
        return true;
    }
    own.failed_on_purpose += 1;
    own.refused += 1;
    if (own.fail_times == 1) own.fail_in = 0;  // 0: it never ends
    if (own.fail_times > 1) own.fail_times -= 1;
    return false;
}

bool take(int device, uint64_t bytes, uint64_t DeviceWords::*kind) {
    DeviceWords &own = words(device);
    if (bytes > free_bytes(device)) {
        own.refused += 1;
        return false;
    }
    own.*kind += bytes;
    own.used_bytes += bytes;
    own.peak_used_bytes = std::max(own.peak_used_bytes, own.used_bytes);
    own.peak_handle_bytes = std::max(own.peak_handle_bytes, own.handle_bytes);
    return true;
}

void give(int device, uint64_t bytes, uint64_t DeviceWords::*kind) {
    DeviceWords &own = words(device);
    own.*kind -= bytes;
    own.used_bytes -= bytes;
}

void fakecuda_unsupported(const char *name) {
    static const bool told = getenv("FAKECUDA_TRACE") != nullptr;
    if (told) fprintf(stderr, "fakecuda: %s is not supported\n", name);
}

uint64_t fakecuda_cudnn_workspace_bytes(void) { return ledger().cudnn_workspace_bytes; }
int fakecuda_capability(void) { return (int)ledger().capability; }
const char *fakecuda_device_name(void) { return "NVIDIA Fake CUDA"; }

int fakecuda_physical_count(void) { return (int)ledger().device_count; }
const DeviceWords *fakecuda_words(int physical) { return &ledger().devices[physical]; }
