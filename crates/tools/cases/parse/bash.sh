#!/bin/sh
# doc
f() { local x=1; g "$x"; }
function h { echo; }
readonly K=1
