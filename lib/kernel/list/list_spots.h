/* The body of a list kernel: list_spot.c includes it once for each instruction set.
 *
 *     SPOT(name)   name of a function
 *     SPOT_TARGET  its attribute
 *     SPOT_HAS     has_top(), or what equals it
 *
 * A probe waits for two loads of a page. How many probes a processor has in flight
 * meanwhile goes by their instructions, so all of it is in one function, without a
 * branch that is taken by chance. */

SPOT_TARGET static bool SPOT(spot)(const uint8_t *page, uint64_t first, uint64_t value,
                                   struct list_spot *s)
{
    return find_spot(page, first, value, s);
}

SPOT_TARGET GROUP_INLINE bool SPOT(tops_lack)(const uint8_t *page,
                                              const struct list_spot *s)
{
    uint32_t group = s->group, top_bytes = s->top_bytes;
    bool has = SPOT_HAS(list_group_tops(page, top_bytes, group), top_bytes, s->top);
    while (__builtin_expect(group < s->last, 0))
        has |= SPOT_HAS(list_group_tops(page, top_bytes, ++group), top_bytes, s->top);
    return !has;
}

SPOT_TARGET static bool SPOT(spot_lacks)(const uint8_t *page, const struct list_spot *s)
{
    return SPOT(tops_lack)(page, s);
}

SPOT_TARGET static bool SPOT(lacks)(const uint8_t *page, uint64_t first, uint64_t value)
{
    struct list_spot s;
    return find_spot(page, first, value, &s) && SPOT(tops_lack)(page, &s);
}

SPOT_TARGET static bool SPOT(find)(const uint8_t *page, const struct list_page *p,
                                   uint64_t value)
{
    return find_in_page(page, p, value);
}

static const struct list_kernel SPOT(kernel_list) = {SPOT(lacks),
                                                     SPOT(spot),
                                                     SPOT(spot_lacks),
                                                     SPOT(find),
                                                     SPOT(list_page_values),
                                                     SPOT(list_page_pack)};

#undef SPOT
#undef SPOT_TARGET
#undef SPOT_HAS
