/* Named places where a test holds a thread, to force an interleaving that chance would
 * take years to find (test_interleavings_*.c). Only the test's own objects have
 * TAMIS_SYNC_POINTS; `make check-symbols` verifies that nothing shipped has them. */
#ifndef TAMIS_SYNC_POINT_H
#define TAMIS_SYNC_POINT_H

#ifdef TAMIS_SYNC_POINTS
void sync_point(const char *name); /* the test defines it */
#define SYNC_POINT(name) sync_point(name)
#else
#define SYNC_POINT(name) ((void)0)
#endif

#endif
