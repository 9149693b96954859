// Streams and events. Everything happens at once, so that there is never anything to wait for.
#include <cuda.h>

#include <chrono>

#include "context.h"
#include "ledger.h"
#include "memory.h"

namespace {

struct Stream {
    int device, priority;
};

struct Event {
    double milliseconds;
};

double now() {
    auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::milli>(since).count();
}

}  // namespace

extern "C" {

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int, int priority) {
    if (current_device() < 0) return CUDA_ERROR_INVALID_CONTEXT;
    *stream = (CUstream) new Stream{current_device(), priority};
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
    return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy(CUstream stream) {
    delete (Stream *)stream;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream stream, int *priority) {
    *priority = (uint64_t)stream > 2 ? ((Stream *)stream)->priority : 0;
    return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream) { return CUDA_SUCCESS; }
CUresult cuStreamSynchronize(CUstream) { return cuCtxSynchronize(); }
CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned int) { return CUDA_SUCCESS; }

CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus *status) {
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream, CUhostFn call, void *data) {
    call(data);
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned int) {
    *event = (CUevent) new Event{now()};
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
    delete (Event *)event;
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream) {
    ((Event *)event)->milliseconds = now();
    return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent) { return CUDA_SUCCESS; }
CUresult cuEventSynchronize(CUevent) { return CUDA_SUCCESS; }

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    *milliseconds = (float)(((Event *)end)->milliseconds - ((Event *)start)->milliseconds);
    return CUDA_SUCCESS;
}
}
