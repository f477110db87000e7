-- Current rows of topic shop.public.orders (mysql), loaded into cdc.shop_public_orders: the newest record of each key, deletes removed; the active generations by cdc.shop___generations.
CREATE OR REPLACE VIEW `cdc`.`orders`
COMMENT 'Current rows of topic shop.public.orders (mysql), loaded into cdc.shop_public_orders: the newest record of each key, deletes removed; the active generations by cdc.shop___generations.'
AS
WITH tm_active AS (
  SELECT
    r.`gen` AS tm_gen
  FROM `cdc`.`shop___generations` r
  WHERE r.`gen` >= (SELECT COALESCE(MAX(CASE WHEN r.`baseline` THEN r.`gen` END), 0) FROM `cdc`.`shop___generations` r)
),
tm_positioned AS (
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
    (LPAD(CAST(r.`__gen` AS STRING), 19, '0') || LPAD(COALESCE(NULLIF(GET_JSON_OBJECT(r.`__pos`, '$.epoch'), ''), '0'), 20, '0') || LPAD(REGEXP_EXTRACT(GET_JSON_OBJECT(r.`__pos`, '$.file'), '[0-9]+$', 0), 20, '0') || LPAD(GET_JSON_OBJECT(r.`__pos`, '$.pos'), 20, '0') || LPAD(CAST(r.`__seq` AS STRING), 19, '0')) AS tm_at
  FROM `cdc`.`shop_public_orders` r
  WHERE r.`__op` IN ('c', 'u', 'd', 'r', 't')
    AND (r.`__gen` IN (SELECT tm_gen FROM tm_active) OR (SELECT COUNT(*) FROM tm_active) = 0)
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
    MIN_BY(r.`Order`, CASE WHEN NOT COALESCE(ARRAY_CONTAINS(r.`__unavailable`, 'Order'), FALSE) THEN r.tm_n ELSE r.tm_n + 1000000000000 END) AS `Order`,
    MIN_BY(r.`gr_xf6__xdf_e`, CASE WHEN NOT COALESCE(ARRAY_CONTAINS(r.`__unavailable`, 'größe'), FALSE) THEN r.tm_n ELSE r.tm_n + 1000000000000 END) AS `gr_xf6__xdf_e`,
    MIN_BY(r.`__op`, r.tm_n) AS `__op`,
    MIN_BY(r.`__pos`, r.tm_n) AS `__pos`,
    MIN_BY(r.`__seq`, r.tm_n) AS `__seq`,
    MIN_BY(r.`__gen`, r.tm_n) AS `__gen`,
    MIN_BY(r.`__ts_us`, r.tm_n) AS `__ts_us`,
    MAX(CASE WHEN NOT COALESCE(ARRAY_CONTAINS(r.`__unavailable`, 'Order'), FALSE) THEN 1 ELSE 0 END) AS tm_c3,
    MAX(CASE WHEN NOT COALESCE(ARRAY_CONTAINS(r.`__unavailable`, 'größe'), FALSE) THEN 1 ELSE 0 END) AS tm_c4
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
  FILTER(ARRAY(CASE WHEN r.tm_c3 = 0 THEN 'Order' END, CASE WHEN r.tm_c4 = 0 THEN 'größe' END), c -> c IS NOT NULL) AS `__unavailable`
FROM tm_resolved r;
