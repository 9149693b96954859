// cuDNN: a descriptor knows what layout copies its convolution needs, and no more; an engine
// computes nothing.
//
// cuDNN's fast kernels read and write channels-last. What comes as NCHW is transposed into a
// workspace before, and back after (NVIDIA, Convolutional Layers User's Guide, "Tensor Layouts In
// Memory: NCHW vs NHWC"). FAKECUDA_CUDNN_LAYOUT_COPIES says how many such copies of input and
// output a convolution asks for, at most MOST_BYTES for each of their numbers; a second engine does
// without, which PyTorch takes where the first one's workspace is not to be had.
#include <cudnn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "ledger.h"

namespace {

struct Descriptor {
    cudnnBackendDescriptorType_t type;
    std::vector<int64_t> dimensions, strides;  // of a tensor
    uint64_t item_bytes = 0;
    uint64_t copied_bytes = 0;  // layout copies of this and all below it
    bool copies = true;         // false for the engine that does without
    bool falls_back = false;    // a search for what works where the best does not
};

// The tiles of Winograd's F(2x2, 3x3): 16 float32 numbers for every 4, whatever the tensor's type.
constexpr double MOST_BYTES = 16;

double layout_copies() {
    static const double number = [] {
        const char *text = getenv("FAKECUDA_CUDNN_LAYOUT_COPIES");
        return text ? atof(text) : 0;
    }();
    return number;
}

uint64_t item_bytes(cudnnDataType_t type) {
    switch (type) {
        case CUDNN_DATA_DOUBLE: case CUDNN_DATA_INT64: return 8;
        case CUDNN_DATA_FLOAT: case CUDNN_DATA_INT32: return 4;
        case CUDNN_DATA_HALF: case CUDNN_DATA_BFLOAT16: return 2;
        default: return 1;
    }
}

// What the layout copies of a tensor take: nothing where its channels already lie side by side.
uint64_t layout_bytes(const Descriptor &tensor) {
    if (tensor.dimensions.size() < 4 || tensor.strides.size() < 4) return 0;
    if (tensor.strides[1] == 1 || tensor.dimensions[1] == 1) return 0;
    double bytes = std::min(layout_copies() * (double)tensor.item_bytes, MOST_BYTES);
    for (int64_t side : tensor.dimensions) bytes *= (double)side;
    return (uint64_t)bytes;
}

// Descriptors are let go of while plans live on: what matters is handed on as a number.
void set(Descriptor &own, cudnnBackendAttributeName_t name, int64_t count, const void *values) {
    Descriptor *const *others = (Descriptor *const *)values;
    const int64_t *numbers = (const int64_t *)values;
    switch (name) {
        case CUDNN_ATTR_TENSOR_DATA_TYPE: own.item_bytes = item_bytes(*(cudnnDataType_t *)values); break;
        case CUDNN_ATTR_TENSOR_DIMENSIONS: own.dimensions.assign(numbers, numbers + count); break;
        case CUDNN_ATTR_TENSOR_STRIDES: own.strides.assign(numbers, numbers + count); break;
        case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X:
        case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y: own.copied_bytes += layout_bytes(**others); break;
        case CUDNN_ATTR_OPERATIONGRAPH_OPS:
            for (int64_t i = 0; i < count; ++i) own.copied_bytes += others[i]->copied_bytes;
            break;
        case CUDNN_ATTR_ENGINEHEUR_MODE:
            own.falls_back = *(cudnnBackendHeurMode_t *)values == CUDNN_HEUR_MODE_FALLBACK;
            break;
        case CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH:
        case CUDNN_ATTR_ENGINE_OPERATION_GRAPH:
        case CUDNN_ATTR_ENGINECFG_ENGINE:
        case CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG:
            own.copied_bytes = (*others)->copied_bytes;
            own.copies = (*others)->copies;
            break;
        default: break;
    }
}

int64_t workspace_bytes(const Descriptor &plan) {
    return (int64_t)(fakecuda_cudnn_workspace_bytes() + (plan.copies ? plan.copied_bytes : 0));
}

void *something() {
    static char handle;
    return &handle;
}

// How many of an attribute there are: one engine, its configurations, and no notes or knobs.
// PyTorch 2.15 asks for one configuration, older ones first how many there are.
int64_t count_of(cudnnBackendAttributeName_t name, int64_t asked) {
    switch (name) {
        case CUDNN_ATTR_ENGINEHEUR_RESULTS: return layout_copies() > 0 && asked != 1 ? 2 : 1;
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
    *made = (cudnnBackendDescriptor_t) new Descriptor{type, {}, {}};
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t made) {
    delete (Descriptor *)made;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t own, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t count,
                                       const void *values) {
    if (own && values && count > 0) set(*(Descriptor *)own, name, count, values);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t own, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t asked,
                                       int64_t *count, void *values) {
    int64_t there = count_of(name, asked);
    if (count) *count = there;
    if (!values || asked <= 0) return CUDNN_STATUS_SUCCESS;
    // Descriptors are the caller's own; numbers are 0.
    if (type == CUDNN_TYPE_INT64) memset(values, 0, sizeof(int64_t) * (there < asked ? there : asked));
    if (type == CUDNN_TYPE_INT32) memset(values, 0, sizeof(int32_t) * (there < asked ? there : asked));
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE || name == CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE)
        *(int64_t *)values = workspace_bytes(*(Descriptor *)own);
    for (int64_t i = 0; name == CUDNN_ATTR_ENGINEHEUR_RESULTS && i < there && i < asked; ++i) {
        Descriptor *configuration = ((Descriptor **)values)[i];
        configuration->copied_bytes = ((Descriptor *)own)->copied_bytes;
        configuration->copies = i == 0 && !((Descriptor *)own)->falls_back;
    }
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t) {
    fakecuda_library_call();
    if (plan) fakecuda_used_workspace((uint64_t)workspace_bytes(*(Descriptor *)plan));
    return CUDNN_STATUS_SUCCESS;
}
}
