package values

import (
	"encoding/base64"
	"encoding/hex"
	"errors"

	"github.com/tidemark-cdc/tidemark/schema"
)

var (
	errBytea = errors.New("is not bytea in hex format")
	errEWKB  = errors.New("is not EWKB in hexadecimal digits")
)

// mapBinary maps bytea and what else is bytes to mode; decode gives bytes.
func mapBinary(mode BinaryMode, decode Decoder) (schema.Type, Decoder) {
	var encode func(out, src []byte)
	var size func(n int) int
	switch mode {
	case BinaryHex:
		encode, size = func(out, src []byte) { hex.Encode(out, src) }, hex.EncodedLen
	case BinaryBase64:
		encode, size = base64.StdEncoding.Encode, base64.StdEncoding.EncodedLen
	case BinaryBase64URL:
		encode, size = base64.URLEncoding.Encode, base64.URLEncoding.EncodedLen
	default:
		return schema.Type{Kind: schema.KindBytes}, decode
	}
	return schema.Type{Kind: schema.KindString}, func(a *Arena, b []byte) (schema.Value, error) {
		v, err := decode(a, b)
		if err != nil {
			return v, err
		}
		out := a.Bytes(size(len(v.Bytes)))
		encode(out, v.Bytes)
		return schema.Text(out), nil
	}
}

func decodeBytea(a *Arena, b []byte) (schema.Value, error) {
	if len(b) < 2 || b[0] != '\\' || b[1] != 'x' {
		return schema.Value{}, errBytea
	}
	out, ok := unhex(a, b[2:])
	if !ok {
		return schema.Value{}, errBytea
	}
	return schema.Bytes(out), nil
}

// decodeEWKB reads the output of PostGIS's geometry and geography: hexadecimal EWKB
// (https://postgis.net/docs/using_postgis_dbmanagement.html#EWKB_EWKT).
func decodeEWKB(a *Arena, b []byte) (schema.Value, error) {
	out, ok := unhex(a, b)
	if !ok || len(out) < 5 {
		return schema.Value{}, errEWKB
	}
	return schema.Bytes(out), nil
}

func unhex(a *Arena, b []byte) ([]byte, bool) {
	out := a.Bytes(len(b) / 2)
	if _, err := hex.Decode(out, b); err != nil || len(b)%2 != 0 {
		return nil, false
	}
	return out, true
}
