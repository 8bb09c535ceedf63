// All that an author of a plugin includes.
#pragma once

#include "tensoracle/arguments.hpp"
#include "tensoracle/creator.hpp"
#include "tensoracle/device_buffer.hpp"
#include "tensoracle/error.hpp"
#include "tensoracle/fields.hpp"
#include "tensoracle/half.hpp"
#include "tensoracle/kernel.hpp"
#include "tensoracle/log.hpp"
#include "tensoracle/plugin_abi.hpp"
#include "tensoracle/plugin_base.hpp"
#include "tensoracle/tensors.hpp"
