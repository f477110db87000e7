-- Current rows of topic shop.public.orders (sqlserver), loaded into cdc.shop_public_orders: the newest record of each key, deletes removed; all generations count, in order, since no table of activation records was named.
CREATE OR REPLACE VIEW `cdc`.`orders` AS
WITH tm_positioned AS (
  SELECT
    r.`id` AS `id`,
    r.`region` AS `region`,
    r.`Order` AS `Order`,
    r.`gr_xf6__xdf_e` AS `gr_xf6__xdf_e`,
    r.`__op` AS `__op`,
    r.`__pos` AS `__pos`,
    r.`__seq` AS `__seq`,
    r.`__gen` AS `__gen`,
    r.`__ts_us` AS `__ts_us`,
    r.`__unavailable` AS `__unavailable`,
    (leftPad(CAST(r.`__gen` AS String), 19, '0') || LOWER(trim(BOTH '"' FROM JSONExtractRaw(assumeNotNull(r.`__pos`), 'lsn'))) || leftPad(CAST(r.`__seq` AS String), 19, '0')) AS tm_at
  FROM `cdc`.`shop_public_orders` r
  WHERE r.`__op` IN ('c', 'u', 'd', 'r', 't')
),
tm_numbered AS (
  SELECT
    r.`id` AS `id`,
    r.`region` AS `region`,
    r.`Order` AS `Order`,
    r.`gr_xf6__xdf_e` AS `gr_xf6__xdf_e`,
    r.`__op` AS `__op`,
    r.`__pos` AS `__pos`,
    r.`__seq` AS `__seq`,
    r.`__gen` AS `__gen`,
    r.`__ts_us` AS `__ts_us`,
    r.`__unavailable` AS `__unavailable`,
    ROW_NUMBER() OVER (PARTITION BY r.`region`, r.`id` ORDER BY r.tm_at DESC) AS tm_n,
    SUM(CASE WHEN r.`__op` IN ('c', 'd') THEN 1 ELSE 0 END) OVER (PARTITION BY r.`region`, r.`id` ORDER BY r.tm_at DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - CASE WHEN r.`__op` IN ('c', 'd') THEN 1 ELSE 0 END AS tm_later
  FROM tm_positioned r
  WHERE r.`__op` <> 't'
    AND r.tm_at > (SELECT COALESCE(MAX(r.tm_at), '') FROM tm_positioned r WHERE r.`__op` = 't')
),
tm_resolved AS (
  SELECT
    r.`id` AS `id`,
    r.`region` AS `region`,
    tupleElement(argMinIf(tuple(r.`Order`), r.tm_n, NOT has(r.`__unavailable`, 'Order')), 1) AS `Order`,
    tupleElement(argMinIf(tuple(r.`gr_xf6__xdf_e`), r.tm_n, NOT has(r.`__unavailable`, 'größe')), 1) AS `gr_xf6__xdf_e`,
    tupleElement(argMin(tuple(r.`__op`), r.tm_n), 1) AS `__op`,
    tupleElement(argMin(tuple(r.`__pos`), r.tm_n), 1) AS `__pos`,
    tupleElement(argMin(tuple(r.`__seq`), r.tm_n), 1) AS `__seq`,
    tupleElement(argMin(tuple(r.`__gen`), r.tm_n), 1) AS `__gen`,
    tupleElement(argMin(tuple(r.`__ts_us`), r.tm_n), 1) AS `__ts_us`,
    MAX(CASE WHEN NOT has(r.`__unavailable`, 'Order') THEN 1 ELSE 0 END) AS tm_c3,
    MAX(CASE WHEN NOT has(r.`__unavailable`, 'größe') THEN 1 ELSE 0 END) AS tm_c4
  FROM tm_numbered r
  WHERE r.tm_later = 0 AND r.`__op` <> 'd'
  GROUP BY r.`region`, r.`id`
)
SELECT
  r.`id` AS `id`,
  r.`region` AS `region`,
  r.`Order` AS `Order`,
  r.`gr_xf6__xdf_e` AS `gr_xf6__xdf_e`,
  r.`__op` AS `__op`,
  r.`__pos` AS `__pos`,
  r.`__seq` AS `__seq`,
  r.`__gen` AS `__gen`,
  r.`__ts_us` AS `__ts_us`,
  arrayMap(c -> assumeNotNull(c), arrayFilter(c -> c IS NOT NULL, [CASE WHEN r.tm_c3 = 0 THEN 'Order' END, CASE WHEN r.tm_c4 = 0 THEN 'größe' END])) AS `__unavailable`
FROM tm_resolved r
COMMENT 'Current rows of topic shop.public.orders (sqlserver), loaded into cdc.shop_public_orders: the newest record of each key, deletes removed; all generations count, in order, since no table of activation records was named.';
