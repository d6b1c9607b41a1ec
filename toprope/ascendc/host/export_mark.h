// Marks of functions that the vendor's shared library exports: nothing here, where one library holds everything.
#pragma once
#ifndef OPBASE_API
#define OPBASE_API
#endif
