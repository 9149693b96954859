// libcudart on top of our driver. Memory goes through the driver's exported functions, as with the
// real one: comfy-aimdo sees PyTorch's allocations only there.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include "ledger.h"

namespace {

thread_local int last_error = 0, chosen = 0;

// The two libraries number their errors alike; the last one stays until somebody asks for it.
cudaError_t done(int error) {
    if (error) last_error = error;
    return (cudaError_t)error;
}

int use(int device) {
    CUcontext context;
    int error = cuDevicePrimaryCtxRetain(&context, device);
    return error ? error : (int)cuCtxSetCurrent(context);
}

int ensure() {
    if (cuInit(0)) return cudaErrorNoDevice;
    CUcontext context = nullptr;
    cuCtxGetCurrent(&context);
    return context ? 0 : use(chosen);
}

#define WITH_CONTEXT(call)                     \
    do {                                       \
        int bad = ensure();                    \
        return done(bad ? bad : (int)(call));  \
    } while (0)

int attribute(int which, int device) {
    int value = 0;
    cuDeviceGetAttribute(&value, (CUdevice_attribute)which, device);
    return value;
}

// The newest architecture in PyTorch's wheels that the device can run.
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

cudaError_t launched() {
    int bad = ensure();
    if (!bad) fakecuda_launched();
    return done(bad);
}

}  // namespace

extern "C" {

cudaError_t cudaGetLastError(void) {
    int error = last_error;
    last_error = 0;
    return (cudaError_t)error;
}
cudaError_t cudaPeekAtLastError(void) { return (cudaError_t)last_error; }

const char *cudaGetErrorName(cudaError_t error) {
    return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
           : error == cudaErrorNoDevice       ? "cudaErrorNoDevice"
           : error == cudaErrorNotSupported   ? "cudaErrorNotSupported"
           : error == cudaSuccess             ? "cudaSuccess"
                                              : "cudaErrorInvalidValue";
}
const char *cudaGetErrorString(cudaError_t error) {
    const char *text = "";
    cuGetErrorString((CUresult)error, &text);
    return text;
}

cudaError_t cudaDriverGetVersion(int *version) { return done(cuDriverGetVersion(version)); }
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
cudaError_t cudaGetDriverEntryPoint(const char *name, void **found, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult *status) {
    return cudaGetDriverEntryPointByVersion(name, found, CUDART_VERSION, flags, status);
}

// -- devices -------------------------------------------------------------------------------------

cudaError_t cudaGetDeviceCount(int *count) {
    cuDeviceGetCount(count);
    return done(*count ? 0 : cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int *device) {
    *device = chosen;
    return done(cuInit(0));
}
cudaError_t cudaSetDevice(int device) {
    int error = use(device);
    if (!error) chosen = device;
    return done(error);
}
cudaError_t cudaDeviceSynchronize(void) { WITH_CONTEXT(cuCtxSynchronize()); }
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr which, int device) {
    return done(cuDeviceGetAttribute(value, (CUdevice_attribute)which, device));
}
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    return done(cuDeviceCanAccessPeer(can, device, peer));
}
cudaError_t cudaDeviceGetPCIBusId(char *text, int size, int device) {
    return done(cuDeviceGetPCIBusId(text, size, device));
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    return done(cuCtxGetStreamPriorityRange(least, greatest));
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *prop, int device) {
    CUuuid uuid;
    size_t total;
    if (int bad = cuDeviceTotalMem(&total, device)) return done(bad);
    cuDeviceGetUuid(&uuid, device);
    memset(prop, 0, sizeof(*prop));
    snprintf(prop->name, sizeof(prop->name), "%s", fakecuda_device_name());
    memcpy(&prop->uuid, &uuid, sizeof(uuid));
    prop->totalGlobalMem = total;
#define SAME(field, name) prop->field = attribute(CU_DEVICE_ATTRIBUTE_##name, device)
    SAME(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK);
    SAME(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    SAME(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    SAME(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK);
    SAME(regsPerBlock, MAX_REGISTERS_PER_BLOCK);
    SAME(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR);
    SAME(warpSize, WARP_SIZE);
    SAME(memPitch, MAX_PITCH);
    SAME(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK);
    SAME(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR);
    SAME(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR);
    SAME(maxThreadsDim[0], MAX_BLOCK_DIM_X);
    SAME(maxThreadsDim[1], MAX_BLOCK_DIM_Y);
    SAME(maxThreadsDim[2], MAX_BLOCK_DIM_Z);
    SAME(maxGridSize[0], MAX_GRID_DIM_X);
    SAME(maxGridSize[1], MAX_GRID_DIM_Y);
    SAME(maxGridSize[2], MAX_GRID_DIM_Z);
    SAME(totalConstMem, TOTAL_CONSTANT_MEMORY);
    SAME(major, COMPUTE_CAPABILITY_MAJOR);
    SAME(minor, COMPUTE_CAPABILITY_MINOR);
    SAME(textureAlignment, TEXTURE_ALIGNMENT);
    SAME(multiProcessorCount, MULTIPROCESSOR_COUNT);
    SAME(canMapHostMemory, CAN_MAP_HOST_MEMORY);
    SAME(concurrentKernels, CONCURRENT_KERNELS);
    SAME(pciBusID, PCI_BUS_ID);
    SAME(asyncEngineCount, ASYNC_ENGINE_COUNT);
    SAME(unifiedAddressing, UNIFIED_ADDRESSING);
    SAME(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH);
    SAME(l2CacheSize, L2_CACHE_SIZE);
    SAME(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED);
    SAME(managedMemory, MANAGED_MEMORY);
    SAME(cooperativeLaunch, COOPERATIVE_LAUNCH);
    SAME(hostRegisterSupported, HOST_REGISTER_SUPPORTED);
    SAME(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED);
#undef SAME
    return cudaSuccess;
}

// -- memory --------------------------------------------------------------------------------------

cudaError_t cudaMalloc(void **pointer, size_t bytes) {
    *pointer = nullptr;
    if (!bytes) return cudaSuccess;
    WITH_CONTEXT(cuMemAlloc((CUdeviceptr *)pointer, bytes));
}
cudaError_t cudaFree(void *pointer) { WITH_CONTEXT(cuMemFree((CUdeviceptr)pointer)); }
cudaError_t cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t stream) {
    WITH_CONTEXT(cuMemAllocAsync((CUdeviceptr *)pointer, bytes, stream));
}
cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) {
    WITH_CONTEXT(cuMemFreeAsync((CUdeviceptr)pointer, stream));
}
cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    WITH_CONTEXT(cuMemGetInfo(free, total));
}
cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned int flags) {
    WITH_CONTEXT(cuMemHostAlloc(pointer, bytes, flags));
}
cudaError_t cudaMallocHost(void **pointer, size_t bytes) {
    WITH_CONTEXT(cuMemHostAlloc(pointer, bytes, 0));
}
cudaError_t cudaFreeHost(void *pointer) { return done(pointer ? cuMemFreeHost(pointer) : 0); }
cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned int flags) {
    WITH_CONTEXT(cuMemHostRegister(pointer, bytes, flags));
}
cudaError_t cudaHostUnregister(void *pointer) { return done(cuMemHostUnregister(pointer)); }
cudaError_t cudaHostGetDevicePointer(void **pointer, void *host, unsigned int) {
    *pointer = host;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *found, const void *pointer) {
    memset(found, 0, sizeof(*found));
    unsigned int type = 0;
    CUdeviceptr at = (CUdeviceptr)pointer;
    if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at)) {
        found->hostPointer = (void *)pointer;
        return cudaSuccess;  // cudaMemoryTypeUnregistered
    }
    found->type = type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
    found->devicePointer = (void *)pointer;
    if (found->type == cudaMemoryTypeHost) found->hostPointer = (void *)pointer;
    cuPointerGetAttribute(&found->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
    return done(cuDeviceGetDefaultMemPool(pool, device));
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device) {
    return done(cuDeviceGetMemPool(pool, device));
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void *value) {
    return done(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)which, value));
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void *value) {
    return done(cuMemPoolSetAttribute(pool, (CUmemPool_attribute)which, value));
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc *, size_t) {
    return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
    return done(cuMemPoolTrimTo(pool, keep));
}

// -- copies --------------------------------------------------------------------------------------

static cudaError_t copy(void *to, const void *from, size_t bytes) {
    WITH_CONTEXT(fakecuda_copy(to, from, bytes));
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) {
    return copy(to, from, bytes);
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
    return copy(to, from, bytes);
}
cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t bytes, cudaStream_t) {
    return copy(to, from, bytes);
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind, cudaStream_t) {
    for (size_t row = 0; row < height; ++row)
        if (cudaError_t bad = copy((char *)to + row * to_pitch, (char *)from + row * from_pitch,
                                   width))
            return bad;
    return cudaSuccess;
}
cudaError_t cudaMemset(void *to, int value, size_t bytes) {
    WITH_CONTEXT(bytes ? cuMemsetD8((CUdeviceptr)to, (unsigned char)value, bytes) : CUDA_SUCCESS);
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t) {
    return cudaMemset(to, value, bytes);
}
cudaError_t cudaMemcpyToSymbol(const void *, const void *, size_t, size_t, cudaMemcpyKind) {
    return cudaSuccess;  // only kernels read it
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

// -- streams and events --------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority) {
    WITH_CONTEXT(cuStreamCreateWithPriority(stream, flags, priority));
}
cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    return cudaStreamCreateWithPriority(stream, 0, 0);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags) {
    return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return done(cuStreamDestroy(stream)); }
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) {
    return done(cuStreamGetPriority(stream, priority));
}
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { WITH_CONTEXT(cuCtxSynchronize()); }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned int) { return cudaSuccess; }
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t call, void *data,
                                  unsigned int) {
    call(stream, cudaSuccess, data);
    return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t call, void *data) {
    call(data);
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus *status) {
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus *status,
                                     unsigned long long *, cudaGraph_t *, const cudaGraphNode_t **,
                                     const cudaGraphEdgeData **, size_t *) {
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
    WITH_CONTEXT(cuEventCreate(event, flags));
}
cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return done(cuEventDestroy(event)); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return done(cuEventRecord(event, stream));
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int) {
    return done(cuEventRecord(event, stream));
}
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    return done(cuEventElapsedTime(milliseconds, start, end));
}
cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
cudaError_t cudaProfilerStop(void) { return cudaSuccess; }

// -- kernels -------------------------------------------------------------------------------------

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *found, const void *) {
    memset(found, 0, sizeof(*found));
    found->maxThreadsPerBlock = 1024;
    found->numRegs = 32;
    found->ptxVersion = found->binaryVersion = architecture();
    found->maxDynamicSharedSizeBytes = 49152;
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *, int, size_t) {
    *blocks = 1;
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *, int,
                                                                   size_t, unsigned int) {
    *blocks = 1;
    return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t) {
    return launched();
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *, const void *, void **) {
    return launched();
}
cudaError_t cudaLaunchCooperativeKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t) {
    return launched();
}
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void **, size_t, cudaStream_t) {
    return launched();
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
void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *,
                            void *, void *, int *) {}
void __cudaRegisterVar(void **, char *variable, char *, const char *, int, size_t bytes, int,
                       int) {
    variables()[variable] = bytes;
}
char __cudaInitModule(void **) { return 1; }
}
