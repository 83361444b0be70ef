/* Shared by the tests of device errors. */
#include "tests/powercut/errors.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void expect(struct note *n, bool so, const char *format, ...)
{
    va_list args;
    if (so)
        return;
    va_start(args, format);
    vsnprintf(n->what, sizeof n->what, format, args);
    va_end(args);
    _exit(1);
}

/* ---- the disk ---- */

const char *bad_name(enum bad bad)
{
    return bad == BAD_FLUSHES  ? "flushes fail"
           : bad == BAD_WRITES ? "writes fail"
           : bad == BAD_BOTH   ? "writes and flushes fail"
           : bad == BAD_READS  ? "reads fail"
           : bad == BAD_ONE    ? "one request fails"
                               : "writes are lost";
}

void device_break(struct note *n)
{
    atomic_store(&n->device->fail_flushes, (n->bad & (BAD_FLUSHES | BAD_BOTH)) != 0);
    atomic_store(&n->device->fail_writes, (n->bad & (BAD_WRITES | BAD_BOTH)) != 0);
    atomic_store(&n->device->fail_reads, n->bad == BAD_READS);
    atomic_store(&n->device->lose_writes, n->bad == BAD_LOSES);
    atomic_store(&n->device->fail_nth, n->nth);
}

void device_heal(struct note *n)
{
    atomic_store(&n->device->fail_flushes, false);
    atomic_store(&n->device->fail_writes, false);
    atomic_store(&n->device->fail_reads, false);
    atomic_store(&n->device->lose_writes, false);
    atomic_store(&n->device->fail_nth, 0);
}

/* ---- keys ---- */

struct tamis_domain errors_domain(void)
{
    struct tamis_domain d;
    tamis_domain_init(&d, 1, 7);
    return d;
}

uint64_t errors_key(uint64_t i)
{
    return (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
}

void errors_keys(struct note *n, struct tamis_filter *f, uint64_t to)
{
    for (uint64_t i = 0; i < to; i++) {
        struct tamis_key k = tamis_key_of_hash(errors_domain().tag, errors_key(i));
        enum tamis_reason why;
        enum tamis_answer answer = tamis_filter_probe(f, &k, &why);
        expect(n, answer == TAMIS_MAYBE && why == TAMIS_HIT, "key %llu of %llu: %s",
               (unsigned long long)i, (unsigned long long)to, tamis_reason_name(why));
    }
}

void errors_whole(struct note *n, struct tamis_filter *f)
{
    struct tamis_verify report;
    struct tamis_diag diag;
    expect(n, tamis_filter_verify(f, &report, &diag) == 0, "not whole: %s", diag.what);
}
