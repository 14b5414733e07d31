#pragma once
// What libmeshbed.so exports; everything else in it is hidden.

#define MESHBED_API __attribute__((visibility("default")))
