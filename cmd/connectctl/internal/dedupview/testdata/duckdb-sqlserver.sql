-- Current rows of topic shop.public.orders (sqlserver), loaded into cdc.shop_public_orders: the newest record of each key, deletes removed; all generations count, in order, since no table of activation records was named.
CREATE OR REPLACE VIEW "cdc"."orders" AS
WITH tm_positioned AS (
  SELECT
    r."id" AS "id",
    r."region" AS "region",
    r."Order" AS "Order",
    r."gr_xf6__xdf_e" AS "gr_xf6__xdf_e",
    r."__op" AS "__op",
    r."__pos" AS "__pos",
    r."__seq" AS "__seq",
    r."__gen" AS "__gen",
    r."__ts_us" AS "__ts_us",
    r."__unavailable" AS "__unavailable",
    (LPAD(CAST(r."__gen" AS VARCHAR), 19, '0') || LOWER(json_extract_string(r."__pos", '$.lsn')) || LPAD(CAST(r."__seq" AS VARCHAR), 19, '0')) AS tm_at
  FROM "cdc"."shop_public_orders" r
  WHERE r."__op" IN ('c', 'u', 'd', 'r', 't')
),
tm_numbered AS (
  SELECT
    r."id" AS "id",
    r."region" AS "region",
    r."Order" AS "Order",
    r."gr_xf6__xdf_e" AS "gr_xf6__xdf_e",
    r."__op" AS "__op",
    r."__pos" AS "__pos",
    r."__seq" AS "__seq",
    r."__gen" AS "__gen",
    r."__ts_us" AS "__ts_us",
    r."__unavailable" AS "__unavailable",
    ROW_NUMBER() OVER (PARTITION BY r."region", r."id" ORDER BY r.tm_at DESC) AS tm_n,
    SUM(CASE WHEN r."__op" IN ('c', 'd') THEN 1 ELSE 0 END) OVER (PARTITION BY r."region", r."id" ORDER BY r.tm_at DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - CASE WHEN r."__op" IN ('c', 'd') THEN 1 ELSE 0 END AS tm_later
  FROM tm_positioned r
  WHERE r."__op" <> 't'
    AND r.tm_at > (SELECT COALESCE(MAX(r.tm_at), '') FROM tm_positioned r WHERE r."__op" = 't')
),
tm_resolved AS (
  SELECT
    r."id" AS "id",
    r."region" AS "region",
    struct_extract(arg_min(struct_pack(v := r."Order"), r.tm_n) FILTER (WHERE NOT COALESCE(list_contains(r."__unavailable", 'Order'), false)), 'v') AS "Order",
    struct_extract(arg_min(struct_pack(v := r."gr_xf6__xdf_e"), r.tm_n) FILTER (WHERE NOT COALESCE(list_contains(r."__unavailable", 'größe'), false)), 'v') AS "gr_xf6__xdf_e",
    struct_extract(arg_min(struct_pack(v := r."__op"), r.tm_n), 'v') AS "__op",
    struct_extract(arg_min(struct_pack(v := r."__pos"), r.tm_n), 'v') AS "__pos",
    struct_extract(arg_min(struct_pack(v := r."__seq"), r.tm_n), 'v') AS "__seq",
    struct_extract(arg_min(struct_pack(v := r."__gen"), r.tm_n), 'v') AS "__gen",
    struct_extract(arg_min(struct_pack(v := r."__ts_us"), r.tm_n), 'v') AS "__ts_us",
    MAX(CASE WHEN NOT COALESCE(list_contains(r."__unavailable", 'Order'), false) THEN 1 ELSE 0 END) AS tm_c3,
    MAX(CASE WHEN NOT COALESCE(list_contains(r."__unavailable", 'größe'), false) THEN 1 ELSE 0 END) AS tm_c4
  FROM tm_numbered r
  WHERE r.tm_later = 0 AND r."__op" <> 'd'
  GROUP BY r."region", r."id"
)
SELECT
  r."id" AS "id",
  r."region" AS "region",
  r."Order" AS "Order",
  r."gr_xf6__xdf_e" AS "gr_xf6__xdf_e",
  r."__op" AS "__op",
  r."__pos" AS "__pos",
  r."__seq" AS "__seq",
  r."__gen" AS "__gen",
  r."__ts_us" AS "__ts_us",
  [c FOR c IN [CASE WHEN r.tm_c3 = 0 THEN 'Order' END, CASE WHEN r.tm_c4 = 0 THEN 'größe' END] IF c IS NOT NULL] AS "__unavailable"
FROM tm_resolved r;
COMMENT ON VIEW "cdc"."orders" IS 'Current rows of topic shop.public.orders (sqlserver), loaded into cdc.shop_public_orders: the newest record of each key, deletes removed; all generations count, in order, since no table of activation records was named.';
