#help make install       command, libraries, header, man pages, completion; PREFIX=/usr/local DESTDIR=
#help                    BINDIR LIBDIR INCLUDEDIR PKGCONFIGDIR MANDIR DOCDIR BASHDIR ZSHDIR, each below PREFIX
#help make uninstall     removes what that wrote: with the same PREFIX and DESTDIR
#help make dist          build/tamis-VERSION.tar.gz; the same bytes whoever makes it
#help make deb           build/deb/*.deb: libtamis0, libtamis-dev, tamis

# GNU's names in lower case will do, too.
DESTDIR      ?=
PREFIX       ?= $(or $(prefix),/usr/local)
BINDIR       ?= $(or $(bindir),$(PREFIX)/bin)
LIBDIR       ?= $(or $(libdir),$(PREFIX)/lib)
INCLUDEDIR   ?= $(or $(includedir),$(PREFIX)/include)
DATADIR      ?= $(or $(datadir),$(PREFIX)/share)
MANDIR       ?= $(or $(mandir),$(DATADIR)/man)
DOCDIR       ?= $(or $(docdir),$(DATADIR)/doc/tamis)
PKGCONFIGDIR ?= $(or $(pkgconfigdir),$(LIBDIR)/pkgconfig)
BASHDIR      ?= $(DATADIR)/bash-completion/completions
ZSHDIR       ?= $(DATADIR)/zsh/site-functions
INSTALL_VARS := DESTDIR PREFIX BINDIR LIBDIR INCLUDEDIR MANDIR DOCDIR PKGCONFIGDIR BASHDIR ZSHDIR VERSION SONAME

.PHONY: install uninstall dist deb deps-deb
$(foreach v,$(INSTALL_VARS),$(eval install uninstall: export $v := $$($v)))
install: all man
	@tools/package/install.sh install $B

uninstall:
	@tools/package/install.sh uninstall $B

dist:
	@tools/package/dist.sh $B/tamis-$(VERSION).tar.gz $(VERSION)

deps-deb: | deps-build deps-man
	$(call install,build-essential debhelper dpkg-dev pkg-config)

deb: dist | deps-deb
	@tools/package/deb.sh $B/tamis-$(VERSION).tar.gz $(VERSION) $B/deb
