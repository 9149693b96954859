// libcudart on top of our driver. Memory goes through the driver's exported functions, as with the
// real one: comfy-aimdo sees PyTorch's allocations only there.
#include "runtime.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>


namespace {

thread_local int last_error = 0, chosen = 0;

int use(int device) {
    CUcontext context;
    int error = cuDevicePrimaryCtxRetain(&context, device);
    return error ? error : (int)cuCtxSetCurrent(context);
}

int attribute(int which, int device) {
    int value = 0;
    cuDeviceGetAttribute(&value, (CUdevice_attribute)which, device);
    return value;
}

// The newest architecture in PyTorch's wheels that the device can run: CUB insists on one of them.
int architecture() {
    int found = 75;
    for (int one : {75, 80, 86, 90, 100, 120})
        if (one <= fakecuda_capability()) found = one;
    return found;
}

struct Launch {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};
thread_local Launch pushed;

std::map<const void *, size_t> &variables() {
    static auto *all = new std::map<const void *, size_t>();
    return *all;
}

}  // namespace

int done(int error) {
    if (error) last_error = error;
    return error;
}

int ensure_context() {
    if (cuInit(0)) return cudaErrorNoDevice;
    CUcontext context = nullptr;
    cuCtxGetCurrent(&context);
    return context ? 0 : use(chosen);
}

extern "C" {

cudaError_t cudaGetLastError(void) {
    int error = last_error;
    last_error = 0;
    return (cudaError_t)error;
}
cudaError_t cudaPeekAtLastError(void) { return (cudaError_t)last_error; }

const char *cudaGetErrorName(cudaError_t error) {
    const char *text = "";
    cuGetErrorName((CUresult)error, &text);
    return text;
}
const char *cudaGetErrorString(cudaError_t error) {
    const char *text = "";
    cuGetErrorString((CUresult)error, &text);
    return text;
}

cudaError_t cudaDriverGetVersion(int *version) { return (cudaError_t)cuDriverGetVersion(version); }
cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **found, unsigned int version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult *status) {
    CUdriverProcAddressQueryResult result;
    cuGetProcAddress(name, found, (int)version, flags, &result);
    if (status) *status = (cudaDriverEntryPointQueryResult)result;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count) {
    cuDeviceGetCount(count);
    return (cudaError_t)done(*count ? 0 : cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int *device) {
    *device = chosen;
    return (cudaError_t)done(cuInit(0));
}
cudaError_t cudaSetDevice(int device) {
    int error = use(device);
    if (!error) chosen = device;
    return (cudaError_t)done(error);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *prop, int device) {
    size_t total;
    if (int bad = cuDeviceTotalMem(&total, device)) return (cudaError_t)done(bad);
    memset(prop, 0, sizeof(*prop));
    snprintf(prop->name, sizeof(prop->name), "%s", fakecuda_device_name());
    cuDeviceGetUuid((CUuuid *)&prop->uuid, device);
    prop->totalGlobalMem = total;
#define SAME(field, name) prop->field = attribute(CU_DEVICE_ATTRIBUTE_##name, device)
    SAME(major, COMPUTE_CAPABILITY_MAJOR);
    SAME(minor, COMPUTE_CAPABILITY_MINOR);
    SAME(pciBusID, PCI_BUS_ID);
    SAME(multiProcessorCount, MULTIPROCESSOR_COUNT);
    SAME(warpSize, WARP_SIZE);
    SAME(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK);
    SAME(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR);
    SAME(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR);
    SAME(maxThreadsDim[0], MAX_BLOCK_DIM_X);
    SAME(maxThreadsDim[1], MAX_BLOCK_DIM_Y);
    SAME(maxThreadsDim[2], MAX_BLOCK_DIM_Z);
    SAME(maxGridSize[0], MAX_GRID_DIM_X);
    SAME(maxGridSize[1], MAX_GRID_DIM_Y);
    SAME(maxGridSize[2], MAX_GRID_DIM_Z);
    SAME(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK);
    SAME(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    SAME(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    SAME(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK);
    SAME(regsPerBlock, MAX_REGISTERS_PER_BLOCK);
    SAME(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR);
    SAME(totalConstMem, TOTAL_CONSTANT_MEMORY);
    SAME(l2CacheSize, L2_CACHE_SIZE);
    SAME(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH);
    SAME(textureAlignment, TEXTURE_ALIGNMENT);
    SAME(unifiedAddressing, UNIFIED_ADDRESSING);
    SAME(concurrentKernels, CONCURRENT_KERNELS);
    SAME(asyncEngineCount, ASYNC_ENGINE_COUNT);
    SAME(canMapHostMemory, CAN_MAP_HOST_MEMORY);
    SAME(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED);
#undef SAME
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **pointer, size_t bytes) {
    *pointer = nullptr;
    int error = bytes ? ensure_context() : 0;
    if (bytes && !error) error = cuMemAlloc((CUdeviceptr *)pointer, bytes);
    return (cudaError_t)done(error);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *found, const void *pointer) {
    memset(found, 0, sizeof(*found));
    unsigned int type = 0;
    CUdeviceptr at = (CUdeviceptr)pointer;
    bool known = !cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at);
    bool device = known && type == CU_MEMORYTYPE_DEVICE;
    if (known) {
        found->type = device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
        found->devicePointer = (void *)pointer;
        cuPointerGetAttribute(&found->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at);
    }
    if (!device) found->hostPointer = (void *)pointer;
    return cudaSuccess;
}

cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t bytes, cudaStream_t) {
    return (cudaError_t)done(fakecuda_copy(to, from, bytes));
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind, cudaStream_t) {
    int bad = 0;
    for (size_t row = 0; row < height && !bad; ++row)
        bad = fakecuda_copy((char *)to + row * to_pitch, (char *)from + row * from_pitch, width);
    return (cudaError_t)done(bad);
}
cudaError_t cudaGetSymbolAddress(void **pointer, const void *symbol) {
    static std::map<const void *, void *> made;
    static std::mutex lock;
    std::lock_guard<std::mutex> held(lock);
    void *&at = made[symbol];
    if (!at) at = calloc(1, std::max<size_t>(variables()[symbol], 16));
    *pointer = at;
    return cudaSuccess;
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t call, void *data,
                                  unsigned int) {
    call(stream, cudaSuccess, data);
    return cudaSuccess;
}

// -- kernels -------------------------------------------------------------------------------------

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *found, const void *) {
    memset(found, 0, sizeof(*found));
    found->maxThreadsPerBlock = 1024;
    found->numRegs = 32;
    found->ptxVersion = found->binaryVersion = architecture();
    found->maxDynamicSharedSizeBytes = 49152;
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *, int, size_t) {
    *blocks = 1;
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *, int,
                                                                   size_t, unsigned int) {
    *blocks = 1;
    return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
    *kernel = (cudaKernel_t)function;
    return cudaSuccess;
}
unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                         cudaStream_t stream) {
    pushed = {grid, block, shared, stream};
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    *grid = pushed.grid;
    *block = pushed.block;
    *shared = pushed.shared;
    *(cudaStream_t *)stream = pushed.stream;
    return cudaSuccess;
}
void **__cudaRegisterFatBinary(void *) {
    static void *handle;
    return &handle;
}
void __cudaRegisterVar(void **, char *variable, char *, const char *, int, size_t bytes, int,
                       int) {
    variables()[variable] = bytes;
}
}
