-- Current rows of topic shop.public.orders (postgresql), loaded into cdc.shop_public_orders: the newest record of each key, deletes removed; the active generations by cdc.shop___generations.
CREATE OR REPLACE VIEW "cdc"."orders" AS
WITH tm_active AS (
  SELECT
    r."gen" AS tm_gen
  FROM "cdc"."shop___generations" r
  WHERE r."gen" >= (SELECT COALESCE(MAX(CASE WHEN r."baseline" THEN r."gen" END), 0) FROM "cdc"."shop___generations" r)
),
tm_positioned AS NOT MATERIALIZED (
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
    (LPAD(CAST(r."__gen" AS text), 19, '0') || LPAD(SPLIT_PART((r."__pos"::json ->> 'lsn'), '/', 1), 8, '0') || LPAD(SPLIT_PART((r."__pos"::json ->> 'lsn'), '/', 2), 8, '0') || LPAD(CAST(r."__seq" AS text), 19, '0')) COLLATE "C" AS tm_at
  FROM "cdc"."shop_public_orders" r
  WHERE r."__op" IN ('c', 'u', 'd', 'r', 't')
    AND (r."__gen" IN (SELECT tm_gen FROM tm_active) OR (SELECT COUNT(*) FROM tm_active) = 0)
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
tm_sources AS (
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
    r.tm_n,
    MIN(r.tm_n) FILTER (WHERE NOT COALESCE('Order' = ANY (r."__unavailable"), false)) OVER (PARTITION BY r."region", r."id") AS tm_c3,
    MIN(r.tm_n) FILTER (WHERE NOT COALESCE('größe' = ANY (r."__unavailable"), false)) OVER (PARTITION BY r."region", r."id") AS tm_c4
  FROM tm_numbered r
  WHERE r.tm_later = 0 AND r."__op" <> 'd'
),
tm_kept AS (
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
    r.tm_n,
    NULLIF(COUNT(*) FILTER (WHERE r.tm_n <= r.tm_c3) OVER (PARTITION BY r."region", r."id"), 0)::int AS tm_c3,
    NULLIF(COUNT(*) FILTER (WHERE r.tm_n <= r.tm_c4) OVER (PARTITION BY r."region", r."id"), 0)::int AS tm_c4
  FROM tm_sources r
  WHERE r.tm_n IN (1, r.tm_c3, r.tm_c4)
),
tm_resolved AS (
  SELECT
    r."id" AS "id",
    r."region" AS "region",
    NTH_VALUE(r."Order", r.tm_c3) OVER w AS "Order",
    r.tm_c3,
    NTH_VALUE(r."gr_xf6__xdf_e", r.tm_c4) OVER w AS "gr_xf6__xdf_e",
    r.tm_c4,
    r."__op" AS "__op",
    r."__pos" AS "__pos",
    r."__seq" AS "__seq",
    r."__gen" AS "__gen",
    r."__ts_us" AS "__ts_us",
    r.tm_n
  FROM tm_kept r
  WINDOW w AS (PARTITION BY r."region", r."id" ORDER BY r.tm_n ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
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
  array_remove(ARRAY[CASE WHEN r.tm_c3 IS NULL THEN 'Order' END, CASE WHEN r.tm_c4 IS NULL THEN 'größe' END]::text[], NULL) AS "__unavailable"
FROM tm_resolved r
WHERE r.tm_n = 1;
COMMENT ON VIEW "cdc"."orders" IS 'Current rows of topic shop.public.orders (postgresql), loaded into cdc.shop_public_orders: the newest record of each key, deletes removed; the active generations by cdc.shop___generations.';
