#pragma once

#include "kvik/types.h"  // TokenId
