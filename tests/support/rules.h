/* One validation rule of SPEC.md section 8 as a test: bytes to put into a good
 * record, and the verdict that they must get. The checksum is made good again
 * afterwards, so that the value is refused and not its damage. */
#ifndef TAMIS_TESTS_RULES_H
#define TAMIS_TESTS_RULES_H

#include "unit/unit.h"

#include <stdio.h>

#include "format/bytes.h"
#include "format/verdict.h"

#define F64_NAN      UINT64_C(0x7ff8000000000000)
#define F64_INF      UINT64_C(0x7ff0000000000000)
#define F64_MINUS_1  UINT64_C(0xbff0000000000000)
#define F64_ZERO     UINT64_C(0)
#define F64_ONE_HALF UINT64_C(0x3fe0000000000000) /* + 1: the next number up */
#define F64_ONE      UINT64_C(0x3ff0000000000000)
/* The limits of an identity, and of a catalog: 1e-8, 1.25, 16, 0.95. */
#define F64_ERROR_MIN      UINT64_C(0x3e45798ee2308c3a)
#define F64_FACTOR_MIN     UINT64_C(0x3ff4000000000000)
#define F64_FACTOR_MAX     UINT64_C(0x4030000000000000)
#define F64_TIGHTENING_MAX UINT64_C(0x3fee666666666666)

struct rule {
    size_t at;      /* first byte to change */
    size_t n_bytes; /* how many: the value's low bytes, then zeros */
    uint64_t value; /* written little-endian */
    enum verdict_code code;
    size_t offset; /* of the verdict */
    const char *field;
};

/* A rule whose verdict points at the member that it changes, and one that changes a
 * byte somewhere else in the record. With VERDICT_OK the value is allowed. */
#define RULE(type, member, value, code)                                                \
    {                                                                                  \
        offsetof(type, member), sizeof(((type *)0)->member), (value), (code),          \
            offsetof(type, member), #member                                            \
    }
#define RULE_BYTE(at, type, member, value, code)                                       \
    {                                                                                  \
        (at), 1, (value), (code), offsetof(type, member), #member                      \
    }

/* Limits that an identity and a catalog share: values outside and inside. R is the
 * test's own: a member, a value and the verdict's name. */
#define ERRORS_OUTSIDE(R)                                                              \
    R(target_error, F64_NAN, RANGE), R(target_error, F64_ZERO, RANGE),                 \
        R(target_error, F64_MINUS_1, RANGE), R(target_error, F64_INF, RANGE),          \
        R(target_error, F64_ERROR_MIN - 1, RANGE),                                     \
        R(target_error, F64_ONE_HALF + 1, RANGE)
#define GROWTH_OUTSIDE(R)                                                              \
    R(growth_factor, F64_NAN, RANGE), R(growth_factor, F64_ONE, RANGE),                \
        R(growth_factor, F64_FACTOR_MIN - 1, RANGE),                                   \
        R(growth_factor, F64_FACTOR_MAX + 1, RANGE), R(growth_factor, F64_INF, RANGE), \
        R(tightening_ratio, F64_NAN, RANGE),                                           \
        R(tightening_ratio, F64_ONE_HALF - 1, RANGE),                                  \
        R(tightening_ratio, F64_TIGHTENING_MAX + 1, RANGE),                            \
        R(tightening_ratio, F64_ONE, RANGE), R(first_capacity, 0, RANGE),              \
        R(first_capacity, (UINT64_C(1) << 32) + 1, RANGE),                             \
        R(first_capacity, UINT64_MAX, RANGE)
#define LIMITS_INSIDE(R)                                                               \
    R(target_error, F64_ERROR_MIN, OK), R(target_error, F64_ONE_HALF, OK),             \
        R(growth_factor, F64_FACTOR_MIN, OK), R(growth_factor, F64_FACTOR_MAX, OK),    \
        R(tightening_ratio, F64_ONE_HALF, OK),                                         \
        R(tightening_ratio, F64_TIGHTENING_MAX, OK), R(first_capacity, 1, OK),         \
        R(first_capacity, UINT64_C(1) << 32, OK), R(minor, 0, OK),                     \
        R(minor, 0xffff, OK), R(compat, UINT64_MAX, OK), R(ro_compat, UINT64_MAX, OK)

static inline void put_le(uint8_t *to, size_t n_bytes, uint64_t value)
{
    struct le64 v = le64_of(value);
    memset(to, 0, n_bytes);
    memcpy(to, v.b, n_bytes < sizeof v ? n_bytes : sizeof v);
}

static inline void rule_apply(const struct rule *r, uint8_t *record)
{
    put_le(record + r->at, r->n_bytes, r->value);
}

static inline bool rules_touch(const struct rule *a, const struct rule *b)
{
    return a->at < b->at + b->n_bytes && b->at < a->at + a->n_bytes;
}

static inline void verdict_is(struct verdict v, enum verdict_code code, size_t offset,
                              const char *field)
{
    if (v.code != code || v.offset != offset || strcmp(v.field, field) != 0)
        fail_msg("got \"%s\" at %u (%s), want \"%s\" at %zu (%s)", verdict_text(v.code),
                 v.offset, v.field, verdict_text(code), offset, field);
}

/* Decodes a changed copy of the record; the tests' own per kind of record. */
typedef struct verdict rule_decoder(uint8_t *record);

static inline void rule_gives(const struct rule *r, struct verdict v)
{
    bool allowed = r->code == VERDICT_OK;
    verdict_is(v, r->code, allowed ? 0 : r->offset, allowed ? "" : r->field);
}

/* Each rule alone gives its verdict; two at once give the earlier one's: the list in
 * SPEC.md is an order. Rules with the same field are alternatives and not paired. */
static inline void rules_hold(const struct rule *rules, size_t n, const uint8_t *good,
                              size_t n_bytes, rule_decoder *decode)
{
    uint8_t record[4096];
    for (size_t i = 0; i < n; i++) {
        memcpy(record, good, n_bytes);
        rule_apply(&rules[i], record);
        rule_gives(&rules[i], decode(record));
        for (size_t k = i + 1; k < n; k++) {
            if (rules_touch(&rules[i], &rules[k]) ||
                strcmp(rules[i].field, rules[k].field) == 0)
                continue;
            memcpy(record, good, n_bytes);
            rule_apply(&rules[k], record);
            rule_apply(&rules[i], record);
            rule_gives(&rules[i], decode(record));
        }
    }
}

#define NO_BIT SIZE_MAX

/* for (size_t bit = NO_BIT; flip_next(b, n, &bit);): while the body runs one bit is
 * another one, each in turn. */
static inline bool flip_next(void *bytes, size_t n_bytes, size_t *bit)
{
    uint8_t *b = bytes;
    if (*bit != NO_BIT)
        b[*bit / 8] ^= (uint8_t)(1U << *bit % 8);
    if (++*bit == n_bytes * 8)
        return false;
    b[*bit / 8] ^= (uint8_t)(1U << *bit % 8);
    return true;
}

/* A record that begins with a magic, maybe with a version behind it, and ends with its
 * checksum, which decode() does not mend. */
static inline void flips_show(uint8_t *record, size_t n_bytes, size_t n_version_bytes,
                              rule_decoder *decode)
{
    for (size_t bit = NO_BIT; flip_next(record, n_bytes, &bit);) {
        struct verdict v = decode(record);
        if (bit / 8 < 8)
            verdict_is(v, VERDICT_MAGIC, 0, "magic");
        else if (bit / 8 < 8 + n_version_bytes)
            verdict_is(v, VERDICT_VERSION, 8, "major");
        else
            verdict_is(v, VERDICT_CHECKSUM, n_bytes - 8, "checksum");
    }
}

#endif
