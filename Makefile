# The verbs. Everything they do is a script or a CMake preset a person can also run by hand.
.PHONY: build test demo demo-sft bench check setup clean

JOBS ?= $(shell nproc)
# DATA=1 builds Parquet files and object stores in, DATA=0 leaves them out again; unset: as it was.
DATA_OPTION = $(if $(DATA),-DMS_DATA=$(DATA))

build: setup
	@cmake --preset release -DMS_BUILD_TESTS=OFF -DMS_BUILD_BENCH=OFF $(DATA_OPTION)
	@cmake --build build -j $(JOBS) --target mainspring

setup:
	@scripts/setup

test:
	@scripts/setup --dev
	@cmake --preset release -DMS_BUILD_TESTS=ON $(DATA_OPTION)
	@cmake --build build -j $(JOBS)
	@ctest --test-dir build --output-on-failure -j $(JOBS) -L fast
	@ctest --test-dir build --output-on-failure -j 2 -L slow

demo: build
	@scripts/demo

demo-sft: build
	@scripts/demo-sft

bench:
	@scripts/setup --dev
	@cmake --preset release -DMS_BUILD_BENCH=ON $(DATA_OPTION)
	@cmake --build build -j $(JOBS)
	@bench/run

check:
	@scripts/check

clean:
	rm -rf build build-dev build-tsan
