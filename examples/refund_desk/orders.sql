-- The shop's orders, as they were before anybody wrote. Running this twice changes nothing.
CREATE TABLE IF NOT EXISTS orders (
    id text PRIMARY KEY,
    customer text NOT NULL,
    item text NOT NULL,
    cents integer NOT NULL CHECK (cents > 0)
);

INSERT INTO orders (id, customer, item, cents) VALUES
    ('1001', 'ann', 'headphones', 7990),
    ('1003', 'chloe', 'board game', 3450),
    ('1004', 'dev', 'coffee', 420),
    ('1006', 'finn', 'jacket', 8900),
    ('1008', 'hana', 'book', 2200),
    ('1009', 'ivo', 'sofa', 64900),
    ('1011', 'karl', 'concert ticket', 5500),
    ('1012', 'lea', 'teapot', 3990),
    ('1015', 'nina', 'blender', 6400),
    ('1016', 'omar', 'drill', 9900),
    ('1017', 'pia', 'laptop', 149900),
    ('1019', 'rosa', 'camera', 32900),
    ('1021', 'tara', 'shoes, two pairs', 15800),
    ('1023', 'vera', 'curtains', 4990),
    ('1024', 'wim', 'umbrella', 1890),
    ('1025', 'xenia', 'garden chair', 5900),
    ('1026', 'yara', 'perfume', 7200),
    ('1027', 'zoe', 'backpack', 8450),
    ('1029', 'anton', 'kettle', 3490),
    ('1031', 'carlos', 'watch', 21900),
    ('1033', 'egon', 'bicycle', 119900),
    ('1036', 'gil', 'express delivery', 1290),
    ('1038', 'ines', 'dishwasher', 54900),
    ('1040', 'kim', 'vase', 2750),
    ('1043', 'noor', 'yoga mat', 2990),
    ('1044', 'olga', 'lamp', 4590),
    ('1045', 'paul', 'phone', 69900),
    ('1047', 'sven', 'tent', 10000),
    ('1048', 'tom', 'tea set', 5200),
    ('1052', 'xaver', 'novel', 1990),
    ('1054', 'zita', 'two cups', 2400)
ON CONFLICT (id) DO NOTHING;
