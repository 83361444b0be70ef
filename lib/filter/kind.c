/* The kinds of filters that this library answers for. */
#include "lib/filter/kind.h"

static const struct filter_kind *const kinds[] = {&kind_bloom, &kind_pack, &kind_list};

const struct filter_kind *kind_find(uint16_t number)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i]->number == number)
            return kinds[i];
    return NULL;
}
