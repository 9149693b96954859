// What the two halves of libcudart share.
#pragma once

// Remember an error, in CUDA's numbers, until somebody asks for the last one; gives it back.
int done(int error);
// Make the first device's context, or the chosen one's, where the thread has none.
int ensure_context();

extern "C" {
int fakecuda_copy(void *to, const void *from, unsigned long bytes);
int fakecuda_fill(void *to, int value, unsigned long bytes);
int fakecuda_launched(void);
int fakecuda_capability(void);
const char *fakecuda_device_name(void);
}
