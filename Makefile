# The six verbs. Everything they do is a script or a CMake preset a person can also run by hand.
.PHONY: build test demo bench check setup clean

JOBS ?= $(shell nproc)

build: setup
	@cmake --preset release -DMS_BUILD_TESTS=OFF -DMS_BUILD_BENCH=OFF
	@cmake --build build -j $(JOBS) --target mainspring

setup:
	@scripts/setup

test:
	@scripts/setup --dev
	@cmake --preset release -DMS_BUILD_TESTS=ON
	@cmake --build build -j $(JOBS)
	@ctest --test-dir build --output-on-failure -j $(JOBS) -L fast
	@ctest --test-dir build --output-on-failure -j 2 -L slow

demo: build
	@scripts/demo

bench:
	@scripts/setup --dev
	@cmake --preset release -DMS_BUILD_BENCH=ON
	@cmake --build build -j $(JOBS)
	@bench/run

check:
	@scripts/check

clean:
	rm -rf build build-dev build-tsan
