// Included by name in some unit tests; what it logs does not exist here.
#pragma once
