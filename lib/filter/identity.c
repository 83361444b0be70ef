/* Checks, writes and compares the identity of a filter. */
#include "lib/filter/header.h"
#include "lib/error.h"

#include <string.h>

int identity_check(const struct tamis_identity *of, struct tamis_diag *diag)
{
    if (of->name ? !segment_name_valid(of->name, of->name_bytes) : of->name_bytes > 0)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL,
                         "a segment name has 1 to 255 bytes, none of them NUL");
    if (of->binding_bytes > (of->binding ? BINDING_MAX_BYTES : 0))
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "a binding has at most 64 bytes");
    return 0;
}

void identity_write(const struct tamis_identity *of, struct identity *id,
                    struct commit *c)
{
    if (of->name) {
        id->name_bytes = (uint16_t)of->name_bytes;
        memcpy(id->name, of->name, of->name_bytes);
    }
    if (of->binding) {
        c->binding_bytes = (uint8_t)of->binding_bytes;
        memcpy(c->binding, of->binding, of->binding_bytes);
    }
    if (of->store_uuid)
        memcpy(id->store_uuid, of->store_uuid, UUID_BYTES);
}

const char *identity_differs(const struct tamis_identity *of, const struct identity *id,
                             const struct commit *c)
{
    if (of->store_uuid && memcmp(of->store_uuid, id->store_uuid, UUID_BYTES) != 0)
        return "belongs to another store";
    if (of->name && (of->name_bytes != id->name_bytes ||
                     memcmp(of->name, id->name, id->name_bytes) != 0))
        return "is the filter of another segment";
    if (of->binding && (of->binding_bytes != c->binding_bytes ||
                        memcmp(of->binding, c->binding, c->binding_bytes) != 0))
        return "its binding differs from the one expected";
    return NULL;
}
