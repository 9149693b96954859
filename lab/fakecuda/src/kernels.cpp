// Kernels, which are counted and do nothing; and how a program finds the driver's functions.
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "context.h"
#include "ledger.h"

namespace {

int count(uint64_t DeviceWords::*word) {
    uint64_t &counted = words(std::max(current_device(), 0)).*word;
    __atomic_fetch_add(&counted, 1, __ATOMIC_RELAXED);
    return 0;
}

void *own_symbol(const std::string &name) {
    static void *self = [] {
        Dl_info info;
        dladdr((void *)&cuInit, &info);
        return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    }();
    return dlsym(self, name.c_str());
}

// Their second versions take a context as well. Who asks for the plain name calls it without one, and
// to refuse that breaks comfy-aimdo: it then never takes a page back for an allocation of PyTorch's.
bool is_the_first_version(const std::string &name) {
    return name == "cuCtxGetDevice" || name == "cuCtxSynchronize";
}

void *entry_point(const std::string &name, bool per_thread) {
    for (const char *version : {"_v2", ""}) {
        if (*version && is_the_first_version(name)) continue;
        void *found = per_thread ? own_symbol(name + version + "_ptsz") : nullptr;
        if (!found) found = own_symbol(name + version);
        if (found) return found;
    }
    return nullptr;
}

}  // namespace

int fakecuda_launched(void) { return count(&DeviceWords::launches); }
int fakecuda_library_call(void) { return count(&DeviceWords::library_calls); }
void fakecuda_used_workspace(uint64_t bytes) {
    if (current_device() < 0) return;
    uint64_t &largest = words(current_device()).largest_workspace_bytes;
    if (bytes > largest) largest = bytes;
}

extern "C" {

CUresult cuLaunchKernel(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
                        unsigned int, unsigned int, unsigned int, CUstream, void **, void **) {
    fakecuda_launched();
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *, CUfunction, void **, void **) {
    fakecuda_launched();
    return CUDA_SUCCESS;
}

CUresult cuLaunchCooperativeKernel(CUfunction, unsigned int, unsigned int, unsigned int,
                                   unsigned int, unsigned int, unsigned int, unsigned int,
                                   CUstream, void **) {
    fakecuda_launched();
    return CUDA_SUCCESS;
}

// Modules and functions are names that nothing looks behind.
CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    *module = (CUmodule)image;
    return CUDA_SUCCESS;
}
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int, CUjit_option *,
                            void **) {
    *module = (CUmodule)image;
    return CUDA_SUCCESS;
}
CUresult cuModuleLoad(CUmodule *module, const char *) {
    *module = (CUmodule)module;  // any name that is not null
    return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *) {
    *function = (CUfunction)module;
    return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute which, CUfunction) {
    *value = which == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024
             : which == CU_FUNC_ATTRIBUTE_NUM_REGS            ? 32
                                                              : 0;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction, int, size_t) {
    *blocks = 1;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **text) {
    *text = error == CUDA_SUCCESS                ? "CUDA_SUCCESS"
            : error == CUDA_ERROR_OUT_OF_MEMORY  ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == CUDA_ERROR_NOT_SUPPORTED  ? "CUDA_ERROR_NOT_SUPPORTED"
            : error == CUDA_ERROR_NO_DEVICE      ? "CUDA_ERROR_NO_DEVICE"
                                                 : "CUDA_ERROR_INVALID_VALUE";
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
    *text = error == CUDA_SUCCESS                ? "no error"
            : error == CUDA_ERROR_OUT_OF_MEMORY  ? "out of memory"
            : error == CUDA_ERROR_NOT_SUPPORTED  ? "operation not supported"
            : error == CUDA_ERROR_NO_DEVICE      ? "no CUDA-capable device is detected"
                                                 : "invalid argument";
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *name, void **found, int, cuuint64_t flags,
                          CUdriverProcAddressQueryResult *status) {
    *found = entry_point(name, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    if (status)
        *status = *found ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#undef cuGetProcAddress
CUresult cuGetProcAddress(const char *name, void **found, int version, cuuint64_t flags) {
    return cuGetProcAddress_v2(name, found, version, flags, nullptr);
}
}
