// cuDNN: every descriptor is an empty one, every graph has one engine that computes nothing.
#include <cudnn.h>

#include <cstring>

#include "ledger.h"

namespace {

struct Descriptor {
    cudnnBackendDescriptorType_t type;
};

void *something() {
    static char handle;
    return &handle;
}

// How many of an attribute there are: one engine and one configuration, and no notes or knobs.
int64_t count_of(cudnnBackendAttributeName_t name, int64_t asked) {
    switch (name) {
        case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
        case CUDNN_ATTR_ENGINECFG_ENGINE:
        case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
        case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        case CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG: return 1;
        case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
        case CUDNN_ATTR_ENGINE_KNOB_INFO:
        case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE: return 0;
        default: return asked;
    }
}

}  // namespace

extern "C" {

size_t cudnnGetVersion(void) { return CUDNN_VERSION; }
size_t cudnnGetCudartVersion(void) { return 13000; }
size_t cudnnGetMaxDeviceVersion(void) { return 1300; }
const char *cudnnGetErrorString(cudnnStatus_t) { return "an answer of the fake cuDNN"; }
void cudnnGetLastErrorString(char *text, size_t size) { if (size) *text = 0; }

cudnnStatus_t cudnnGetProperty(libraryPropertyType which, int *value) {
    const int parts[] = {CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL};
    *value = parts[which];
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    *handle = (cudnnHandle_t)something();
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t, cudaStream_t *stream) {
    *stream = nullptr;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *made) {
    *made = (cudnnBackendDescriptor_t) new Descriptor{type};
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t made) {
    delete (Descriptor *)made;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t asked,
                                       int64_t *count, void *values) {
    int64_t there = count_of(name, asked);
    if (count) *count = there;
    if (!values || asked <= 0) return CUDNN_STATUS_SUCCESS;
    // Descriptors are the caller's own and stay as they are; numbers are 0.
    if (type == CUDNN_TYPE_INT64) memset(values, 0, sizeof(int64_t) * (there < asked ? there : asked));
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
        *(int64_t *)values = (int64_t)fakecuda_cudnn_workspace_bytes();
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t,
                                  cudnnBackendDescriptor_t) {
    fakecuda_library_call();
    return CUDNN_STATUS_SUCCESS;
}
}
