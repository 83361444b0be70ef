/* The same of the store's rooms. */
#ifndef TAMIS_TESTS_STORE_INTERNALS_H
#define TAMIS_TESTS_STORE_INTERNALS_H

#include "format/record.h"
#include "lib/store/catalog/catalog.h"
#include "lib/store/catalog/file.h"
#include "lib/store/edit/inside.h"
#include "lib/store/snapshot/snapshot.h"
#include "internals.h"

#endif
