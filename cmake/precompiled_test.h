// What every test includes, parsed once for all of them.
#include "precompiled.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
