// The vendor's header name.
#pragma once
