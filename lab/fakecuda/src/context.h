// The device that the calling thread works on; -1 without a context.
#pragma once
int current_device();
