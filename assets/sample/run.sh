#!/bin/sh
# Prints the configuration that would be trained.
cat "$(dirname "$0")/configs/latest.json"
