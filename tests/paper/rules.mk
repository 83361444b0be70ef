#help make paper      table 1 and figures 1 to 6 of Scalable Bloom Filters, measured errors, kinds of filters: build/paper/*.{csv,svg}
#help make check-paper   what the paper states and can be checked

PAPER_OBJ := $(call obj,$(wildcard tests/paper/*.c))
PAPER_DIR := $B/paper
TEST_PROGRAMS += $B/tests/paper/paper
$B/tests/paper/paper: $(PAPER_OBJ) $(FILTER_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) -o $@ $^ $(FILTER_LIBS)

.PHONY: deps-paper paper check-paper
deps-paper: | deps-build
	$(call install,gnuplot-nox)

paper: $B/tests/paper/paper | deps-paper
	@mkdir -p $(PAPER_DIR)
	@tests/paper/paper.sh $< $(PAPER_DIR)

check-paper: $B/tests/paper/paper | deps-paper
	@tests/paper/check.sh $< $(PAPER_DIR)-check
