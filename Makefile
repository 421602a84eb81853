# What people do here; `make` alone lists it.

PREFIX  ?= /usr/local
DESTDIR ?=
# mount(8) looks for mount.TYPE in /sbin and nowhere else that is common. Without root, beside the program.
SBINDIR ?= $(if $(or $(DESTDIR),$(filter 0,$(shell id -u)),$(SUDO)),/sbin,$(PREFIX)/sbin)
# Where systemd and zsh look, below /usr and /usr/local.
UNITDIR ?= $(PREFIX)/lib/systemd
ZSHDIR  ?= $(PREFIX)/share/zsh/$(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)

# Debian's and Ubuntu's packages, a line a purpose. `?` behind a name: left out where the distribution has none.
BUILD_PACKAGES = pkg-config libfuse3-dev libcurl4-openssl-dev libsqlite3-dev libssl-dev libxxhash-dev \
                 python3
RUN_PACKAGES   = fuse3
TEST_PACKAGES  = $(BUILD_PACKAGES) $(RUN_PACKAGES) nginx libnginx-mod-http-fancyindex libnginx-mod-http-dav-ext? \
                 apache2 lighttpd lighttpd-mod-webdav? caddy? rclone python3-venv \
                 vsftpd openssh-server python3-pyftpdlib? trafficserver? trafficserver-experimental-plugins? \
                 libhiredis0.14? libhiredis1.1.0? libmemcached11? libmemcached11t64? libmemcachedutil2? \
                 libmemcachedutil2t64? libpcre2-posix3? libsodium23? \
                 chromium-headless-shell? \
                 curl wget ffmpeg mpv vlc-bin vlc-plugin-base mpd mpc minidlna \
                 mediainfo libimage-exiftool-perl ffmpegthumbnailer attr openssl iproute2 \
                 iptables e2fsprogs sqlite3 autofs \
                 gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good \
                 mandoc groff-base zsh fish systemd
DEMO_PACKAGES  = $(BUILD_PACKAGES) $(RUN_PACKAGES) nginx ffmpeg mpv attr curl
BENCH_PACKAGES = $(BUILD_PACKAGES) $(RUN_PACKAGES) nginx curl rclone fio ffmpeg mpv
DEB_PACKAGES   = $(BUILD_PACKAGES) dpkg-dev debhelper lintian
SYSTEM_PACKAGES = $(DEB_PACKAGES) $(RUN_PACKAGES) mmdebstrap systemd-container iproute2 \
                 nginx curl procps buildah podman runc ffmpeg jq sqlite3 kodi kodi-bin xvfb libgl1-mesa-dri pulseaudio

INSTALL_PACKAGES = Tests/install-packages
# Where tests look for the servers that PyPI has and Debian has not.
PYTHON_SERVERS   = .build-python
# And for those that Debian does not let stand beside vsftpd, or of which one program is wanted (promtool). Their
# libraries are TEST_PACKAGES.
UNPACKED_SERVERS = .build-servers
UNPACKED         = proftpd-core proftpd-mod-crypto prometheus promtool?
# What Debian's own programs have beside a position-independent one: all addresses are looked up at the start, and are
# read-only from then on; and a name of the build, by which its symbols are found. No library is to call the program:
# without names for that it is a twentieth smaller. The linker is the toolchain's own: GNU ld of Debian 13 leaves relro
# out. Two builds have the same bytes, also in two places (Tests/System/twice): no path holds the place of the tree, and
# what the compiler notes for its own next build, and of modules of C headers, with their places and times, is left out.
HARDENED = -Xswiftc -use-ld=lld -Xlinker -z -Xlinker relro -Xlinker -z -Xlinker now -Xlinker --build-id=sha1 \
           -Xlinker --no-export-dynamic \
           -Xswiftc -file-prefix-map -Xswiftc '$(CURDIR)=.' -Xcc '-ffile-prefix-map=$(CURDIR)=.' \
           -Xswiftc -Xfrontend -Xswiftc -no-clang-module-breadcrumbs \
           -Xswiftc -Xfrontend -Xswiftc -disable-incremental-llvm-codegen
RELEASE  = -c release --static-swift-stdlib --product reelfs $(HARDENED)
PROGRAM  = .build/release/reelfs
SHARE    = .build/share
SCRIPTS  = .ci/run Tests/install-packages Tests/install-python Tests/unpack-packages Tests/Demo/demo \
           Tests/Simulation/mutants Tests/side-by-side Tests/System/make-tree Tests/System/deb Tests/System/boot \
           Tests/System/release Tests/System/image Tests/System/kodi Tests/System/twice \
           mount-helpers/files mount-helpers/generate mount-helpers/debian/package \
           mount-helpers/release mount-helpers/debian/prerm mount-helpers/debian/postrm
FILES    = $(SUDO) env DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' SBINDIR='$(SBINDIR)' UNITDIR='$(UNITDIR)' \
           ZSHDIR='$(ZSHDIR)' PROGRAM='$(abspath $(PROGRAM))' SHARE='$(abspath $(SHARE))' mount-helpers/files
# The search for tests needs an index of them. That of the system's modules and what a debugger knows of variables take
# a quarter of the time of a build.
BUILD_DEBUG = swift build -Xswiftc -index-ignore-system-modules -Xswiftc -gline-tables-only
# Scratch paths of their own: a sanitized object file must not meet a plain one.
SANITIZE = swift test --disable-xctest --skip 'EndToEndTests|ReelFuseTests|reelfsTests' --scratch-path
# Root installs as it is, everybody else through sudo where the place is not theirs.
SUDO = $(shell d='$(DESTDIR)$(PREFIX)'; until [ -e "$$d" ] || [ -z "$$d" ]; do d=$${d%/*}; done; \
         [ -w "$${d:-/}" ] || echo sudo)

.DEFAULT_GOAL := help
.PHONY: help build build-tests test test-long test-system test-sanitizers fuzz simulate simulate-mutants demo bench \
        bench-reliability fleet install install-built uninstall deb release format lint clean

help:  ## This list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 24

build:  ## The program, optimised: .build/release/reelfs
	@$(INSTALL_PACKAGES) $(BUILD_PACKAGES)
	swift build $(RELEASE)
	mount-helpers/generate $(PROGRAM) $(SHARE)

test: build-tests  ## Every test, with real servers, players and mounts
	@# What counts bytes, or time, beside other tests counts the load, too.
	swift test --skip-build --disable-xctest --no-parallel --filter SerialTests
	Tests/side-by-side .build/debug/reelfsPackageTests.xctest

test-long:  ## The same with each combination of faults, servers and readers, and with more rounds: half an hour
	REELFS_TEST_LONG=1 $(MAKE) --no-print-directory test

build-tests:  ## The program and its tests, as `make test` builds them
	@$(INSTALL_PACKAGES) $(BUILD_PACKAGES)
	@# What tests run comes beside the build, which takes longer.
	{ $(INSTALL_PACKAGES) $(TEST_PACKAGES) && Tests/unpack-packages $(UNPACKED_SERVERS) $(UNPACKED) && \
	    Tests/install-python $(PYTHON_SERVERS); } & $(BUILD_DEBUG) --build-tests; built=$$?; wait $$! && exit $$built

# Releases in whose roots all is built, tested and installed; Ubuntu's where its keyring is there.
RELEASES ?= bookworm trixie $(if $(wildcard /usr/share/keyrings/ubuntu-archive-keyring.gpg),noble)
test-system: deb test-long  ## The package in small systems of its own: installed, removed, booted, in containers and under Kodi (root), and all again in the roots of RELEASES
	@$(INSTALL_PACKAGES) $(SYSTEM_PACKAGES)
	Tests/System/twice .build/deb/*.deb
	Tests/System/deb .build/deb/*.deb
	Tests/System/boot .build/deb/*.deb
	Tests/System/image .build/deb/*.deb
	Tests/System/kodi .build/deb/*.deb
	for release in $(RELEASES); do \
	    CI=true AT_ONCE=1 Tests/System/release $$release make test deb && \
	    DEBIAN=$$release Tests/System/deb .build/deb-$$release/*.deb || exit 1; \
	done

test-sanitizers:  ## The tests without a mount, under ThreadSanitizer and AddressSanitizer
	@$(INSTALL_PACKAGES) $(TEST_PACKAGES)
	TSAN_OPTIONS="suppressions=$(CURDIR)/Tests/thread-sanitizer.suppressions" $(SANITIZE) .build-tsan --sanitize thread
	ASAN_OPTIONS=detect_leaks=0 $(SANITIZE) .build-asan --sanitize address

# A folder of seeds for each target. What the fuzzer learns stays in FUZZ_DIR, and what ends a parser is written there.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= $(notdir $(wildcard Tests/FuzzTests/Corpus/*))
FUZZ_DIR     = .build-fuzz
fuzz:  ## Every parser of outside bytes under libFuzzer (FUZZ_SECONDS=60 FUZZ_TARGETS="url options")
	@$(INSTALL_PACKAGES) $(BUILD_PACKAGES)
	REELFS_FUZZ=build swift build -c release --product Fuzz --sanitize fuzzer --scratch-path $(FUZZ_DIR) \
	    -Xswiftc -enable-testing
	@for target in $(FUZZ_TARGETS); do \
	    mkdir -p $(FUZZ_DIR)/corpus/$$target; echo "$$target:"; log=$(FUZZ_DIR)/$$target.log; \
	    REELFS_FUZZ=$$target $(FUZZ_DIR)/release/Fuzz -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 \
	        -print_final_stats=1 -artifact_prefix=$(FUZZ_DIR)/$$target- $(FUZZ_DIR)/corpus/$$target \
	        Tests/FuzzTests/Corpus/$$target Tests/ReelSourcesTests/Corpus > $$log 2>&1 || { tail -n 40 $$log; exit 1; }; \
	    grep -a number_of_executed_units $$log; \
	done

MINUTES ?= 1
simulate:  ## Mounts in virtual time, a seed each, until five find something (MINUTES=1 SEED=… SEEDS=1 FAULTS=… DETAIL=--story)
	@$(INSTALL_PACKAGES) $(BUILD_PACKAGES)
	$(BUILD_DEBUG) --product Simulate
	.build/debug/Simulate --seconds $$(($(MINUTES) * 60)) $(SEED:%=--seed %) $(SEEDS:%=--seeds %) \
	    $(FAULTS:%=--faults %) $(LIMITS) $(DETAIL)

simulate-mutants:  ## Defects brought back one by one, for the simulation to find (MUTANTS="old-… new-…" SECONDS_EACH=600)
	@$(INSTALL_PACKAGES) $(BUILD_PACKAGES)
	Tests/Simulation/mutants $(MUTANTS)

demo:  ## A film from a web server, played from a mount: a minute after the build
	@$(INSTALL_PACKAGES) $(DEMO_PACKAGES)
	@$(MAKE) --no-print-directory build
	@Tests/Demo/demo $(PROGRAM)

bench:  ## Beside curl, rclone, mpv and the local file (CASES=latency SIZE=1G ROUNDS=3 REFERENCE=write)
	@$(INSTALL_PACKAGES) $(BENCH_PACKAGES)
	@$(MAKE) --no-print-directory build
	@python3 -B Tests/Bench/bench.py $(PROGRAM) $(CASES)

bench-reliability:  ## Faults tried, reads made, wrong bytes, longest wait, bytes fetched again (CASES=crashes KILLS=20 SEED=…)
	@$(INSTALL_PACKAGES) $(BUILD_PACKAGES) $(RUN_PACKAGES) python3
	@$(MAKE) --no-print-directory build
	@python3 -B Tests/Bench/reliability.py $(PROGRAM) $(CASES)

fleet:  ## What 1 to 10,000 mounts ask of an origin, computed
	@$(INSTALL_PACKAGES) python3
	@python3 -B Tests/Bench/fleet.py

install:  ## reelfs, mount.reelfs, man pages, completions (PREFIX=/usr/local DESTDIR=)
	@# Under sudo there is often no swift in PATH: what the user built is installed as it is.
	@if [ -z "$$SUDO_USER" ] || [ ! -x $(PROGRAM) ] || [ ! -e $(SHARE)/reelfs.1 ]; then \
	    $(MAKE) --no-print-directory build; fi
	@$(INSTALL_PACKAGES) $(if $(DESTDIR),,$(RUN_PACKAGES))
	@$(MAKE) --no-print-directory install-built

install-built:
	$(FILES) install

uninstall:  ## Removes what install put there; caches stay
	$(FILES) uninstall

deb:  ## A Debian package for this distribution: .build/deb/reelfs_VERSION_ARCHITECTURE.deb
	@$(INSTALL_PACKAGES) $(DEB_PACKAGES)
	@$(MAKE) --no-print-directory build
	mount-helpers/debian/package $(PROGRAM) $(SHARE)
	lintian --fail-on error,warning .build/deb/*.changes

release: deb  ## What a release publishes, in .build/release-VERSION; nothing is tagged or sent (VERSION=0.1.0)
	@$(INSTALL_PACKAGES) binutils
	mount-helpers/release $(or $(VERSION),$(error make release VERSION=0.1.0))

format:  ## Swift sources in the house's form
	swift format -i --recursive --parallel --configuration .swift-format Package.swift Sources Tests

lint:  ## The form of every source, without changing it
	swift format lint --strict --recursive --parallel --configuration .swift-format Package.swift Sources Tests
	@# swift-format breaks no comments. Tables and links take the columns that they need.
	! LC_ALL=C.UTF-8 grep -rnE '.{121}' --include='*.md' --include='*.swift' Sources Tests *.md \
	    | grep -E '\.md:|:[0-9]+: *//' | grep -vE ':[0-9]+: *\||\]\(|[a-z]://'
	@# A lock without a rank is one that the check of their order does not see (`Lock`).
	! grep -rnE '\bMutex *[(<]' --include='*.swift' Sources | grep -v '^Sources/ReelThreads/'
	@for patch in Tests/Simulation/Mutants/*.patch; do \
	    patch --dry-run --silent --strip 1 < $$patch > /dev/null || { echo "$$patch does not apply"; exit 1; }; \
	done
	Tests/check-words
	for script in $(SCRIPTS); do bash -n $$script || exit 1; done
	if command -v shellcheck > /dev/null; then shellcheck -x -P SCRIPTDIR $(SCRIPTS); fi

clean:  ## Everything that was built
	rm -rf .build .build-tsan .build-asan .build-fuzz $(PYTHON_SERVERS) $(UNPACKED_SERVERS)
