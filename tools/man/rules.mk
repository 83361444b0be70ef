#help make man           build/man/tamis.{1,3,5,7}, from tools/man, the help of the command, tamis.h and SPEC.md

# The command that is asked for its help: one that runs here, where CC makes another's.
TAMIS_HELP ?= $B/tamis
MAN_PAGES := $(patsubst tools/man/%.scd,$B/man/%,$(wildcard tools/man/*.scd))

.PHONY: man deps-man
deps-man:
	$(call install,scdoc)

man: $(MAN_PAGES)

# Root may be the first who needs it; the user who built the rest must be able to clean up.
$B/man/%: tools/man/%.scd $(wildcard tools/man/*.awk) tools/man/json.fields tools/man/expand.sh $B/tamis lib/tamis.h $(wildcard lib/tamis/*.h) SPEC.md | deps-man
	@mkdir -p $(@D)
	$(call say,MAN,$@)
	$(Q)tools/man/expand.sh $< $(TAMIS_HELP) >$@.scd
	$(Q)SOURCE_DATE_EPOCH=$$(tools/package/date.sh) scdoc <$@.scd >$@
	@[ $$(id -u) != 0 ] || chown --reference=$B $(@D) $@ $@.scd
