#pragma once
// The exports of libmeshbed.so; everything else in it is hidden.

#define MESHBED_API __attribute__((visibility("default")))
