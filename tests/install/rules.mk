#help make check-install  install, ABI, man pages, completion, tarball and packages, in temporary roots
#help make abi-record     what the ABI is now, into tests/install/abi.txt: after a change that is meant

ABI_RECORD := tests/install/abi.txt
CXX ?= g++
.PHONY: deps-check-install check-install abi-record
deps-check-install: | deps-test deps-deb
	$(call install,abigail-tools mandoc groff-base zsh bash-completion pkg-config git)

check-install: all man | deps-check-install
	@B=$(abspath $B) CC='$(CC)' CXX='$(CXX)' JOBS=1 tests/unit.sh tests/install/*.bats

abi-record: $B/libtamis.so | deps-check-install
	@tests/install/abi.sh record $B/libtamis.so.$(VERSION) $(ABI_RECORD)
