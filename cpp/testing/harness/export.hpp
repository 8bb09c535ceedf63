// How the functions for Python are declared.
#pragma once

#define HARNESS_EXPORT extern "C" __attribute__((visibility("default")))
