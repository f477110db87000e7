// Package verify says whether what a consumer reads of a stream is what it may rely on: validators as values, each of one
// property, fed record by record. `connectctl verify`, the demo's judge and the tests' judges use the same ones. It knows the
// records' headers and positions, of every engine; what needs columns is given a function that decodes them.
package verify
