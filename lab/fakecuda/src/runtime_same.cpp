// The functions of libcudart that the driver answers: arguments and error numbers are the same in
// both, so each is one line here. Numbers and pointers travel in registers, used or not.
#include <cuda.h>

#include "runtime.h"

using Word = unsigned long;
using Driver = int (*)(Word, Word, Word, Word);

#define SAME(runtime, driver)                            \
    int runtime(Word a, Word b, Word c, Word d) {        \
        int bad = ensure_context();                      \
        return done(bad ? bad : ((Driver)driver)(a, b, c, d)); \
    }
#define SUCCEEDS(runtime) \
    int runtime(void) { return 0; }

#pragma GCC diagnostic ignored "-Wcast-function-type"

extern "C" {
SAME(cudaDeviceSynchronize, cuCtxSynchronize)
SAME(cudaDeviceGetAttribute, cuDeviceGetAttribute)
SAME(cudaDeviceCanAccessPeer, cuDeviceCanAccessPeer)
SAME(cudaDeviceGetPCIBusId, cuDeviceGetPCIBusId)
SAME(cudaDeviceGetStreamPriorityRange, cuCtxGetStreamPriorityRange)

SAME(cudaFree, cuMemFree)
SAME(cudaMallocAsync, cuMemAllocAsync)
SAME(cudaFreeAsync, cuMemFreeAsync)
SAME(cudaMemGetInfo, cuMemGetInfo)
SAME(cudaDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool)
SAME(cudaMemPoolGetAttribute, cuMemPoolGetAttribute)
SAME(cudaMemPoolSetAttribute, cuMemPoolSetAttribute)
SAME(cudaMemPoolTrimTo, cuMemPoolTrimTo)
SAME(cudaHostAlloc, cuMemHostAlloc)
SAME(cudaMallocHost, cuMemAllocHost)
SAME(cudaFreeHost, cuMemFreeHost)
SAME(cudaHostRegister, cuMemHostRegister)
SAME(cudaHostUnregister, cuMemHostUnregister)
SAME(cudaHostGetDevicePointer, cuMemHostGetDevicePointer)
SAME(cudaMemcpy, fakecuda_copy)
SAME(cudaMemcpyAsync, fakecuda_copy)
SAME(cudaMemset, fakecuda_fill)
SAME(cudaMemsetAsync, fakecuda_fill)

SAME(cudaStreamCreateWithPriority, cuStreamCreateWithPriority)
SAME(cudaStreamCreateWithFlags, cuStreamCreate)
SAME(cudaStreamCreate, cuStreamCreate)
SAME(cudaStreamDestroy, cuStreamDestroy)
SAME(cudaStreamGetPriority, cuStreamGetPriority)
SAME(cudaStreamSynchronize, cuStreamSynchronize)
SAME(cudaStreamIsCapturing, cuStreamIsCapturing)
SAME(cudaStreamGetCaptureInfo, cuStreamIsCapturing)
SAME(cudaLaunchHostFunc, cuLaunchHostFunc)
SAME(cudaEventCreate, cuEventCreate)
SAME(cudaEventCreateWithFlags, cuEventCreate)
SAME(cudaEventDestroy, cuEventDestroy)
SAME(cudaEventRecord, cuEventRecord)
SAME(cudaEventRecordWithFlags, cuEventRecord)
SAME(cudaEventElapsedTime, cuEventElapsedTime)

SAME(cudaLaunchKernel, fakecuda_launched)
SAME(cudaLaunchKernelExC, fakecuda_launched)
SAME(cudaLaunchCooperativeKernel, fakecuda_launched)
SAME(__cudaLaunchKernel, fakecuda_launched)

// Everything happens at once, and only kernels read a symbol.
SUCCEEDS(cudaStreamQuery)
SUCCEEDS(cudaStreamWaitEvent)
SUCCEEDS(cudaEventQuery)
SUCCEEDS(cudaEventSynchronize)
SUCCEEDS(cudaThreadExchangeStreamCaptureMode)
SUCCEEDS(cudaMemPoolSetAccess)
SUCCEEDS(cudaMemcpyToSymbol)
SUCCEEDS(cudaFuncSetAttribute)
SUCCEEDS(cudaProfilerStart)
SUCCEEDS(cudaProfilerStop)
SUCCEEDS(__cudaRegisterFatBinaryEnd)
SUCCEEDS(__cudaUnregisterFatBinary)
SUCCEEDS(__cudaRegisterFunction)
SUCCEEDS(__cudaInitModule)
}
