package a
import ("fmt"; x "y/z")
// doc
type P[T any] struct { x int; Q }
type (
	// A doc
	A int
	B interface { M(); N }
)
// F doc
func (p *P[T]) F(a int) string { local := 1; return g(a) + p.h() + fmt.S(1) }
func top() {}
const K = 1
const ( C1 = iota; C2 )
var v, w = 1, 2
