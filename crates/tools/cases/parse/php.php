<?php
namespace A\B;
use C\D;
/** doc */
class P extends Q implements I { const K = 1; public $x = 1; public function f(int $a): string { return $this->g($a) . h(1) . X::y() . new Z(1); } }
interface I {}
trait T {}
enum E { case A; }
function top() {}
